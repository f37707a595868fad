package consumer

import (
	"math"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"
)

// addEventSources adds an event source mapping for each topic. They are CloudFormation resources, because the
// CDK's ManagedKafkaEventSource attaches a managed policy with more permissions than necessary and does not
// support mTLS for MSK.
func (c *Consumer) addEventSources() {
	for i, topic := range c.props.Source.Topics {
		source := awslambda.NewCfnEventSourceMapping(c.Construct, jsii.String("EventSource"+c.suffix(i)),
			c.eventSource(topic))
		c.EventSources = append(c.EventSources, source)
	}
}

func (c *Consumer) eventSource(topic Topic) *awslambda.CfnEventSourceMappingProps {
	p := &c.props
	props := &awslambda.CfnEventSourceMappingProps{
		FunctionName:                   c.Alias.FunctionArn(),
		Topics:                         jsii.Strings(topic.Name),
		BatchSize:                      jsii.Number(p.Source.BatchSize),
		StartingPosition:               jsii.String(string(p.Source.StartingPosition)),
		SourceAccessConfigurations:     p.access(),
		MaximumBatchingWindowInSeconds: optionalNumber(p.Source.BatchWindow.Seconds()),
	}
	if p.Source.StartingPosition == awslambda.StartingPosition_AT_TIMESTAMP {
		props.StartingPositionTimestamp = jsii.Number(p.Source.StartingTimestamp.Unix())
	}
	if len(p.Source.Filters) > 0 {
		props.FilterCriteria = filterCriteria(p.Source.Filters)
	}
	if p.selfManaged() {
		props.SelfManagedEventSource = &awslambda.CfnEventSourceMapping_SelfManagedEventSourceProperty{
			Endpoints: &awslambda.CfnEventSourceMapping_EndpointsProperty{KafkaBootstrapServers: jsii.Strings(
				p.Cluster.BootstrapServers...)},
		}
		props.SelfManagedKafkaEventSourceConfig = &awslambda.CfnEventSourceMapping_SelfManagedKafkaEventSourceConfigProperty{
			ConsumerGroupId: &topic.Group, SchemaRegistryConfig: p.schemaRegistry(),
		}
	} else {
		props.EventSourceArn = &p.Cluster.ARN
		props.AmazonManagedKafkaEventSourceConfig = &awslambda.CfnEventSourceMapping_AmazonManagedKafkaEventSourceConfigProperty{
			ConsumerGroupId: &topic.Group, SchemaRegistryConfig: p.schemaRegistry(),
		}
	}
	if !p.Source.Pollers.OnDemand {
		c.provisioned(props)
	}
	return props
}

// provisioned sets the properties that are available only in provisioned mode.
func (c *Consumer) provisioned(props *awslambda.CfnEventSourceMappingProps) {
	p := &c.props
	props.ProvisionedPollerConfig = &awslambda.CfnEventSourceMapping_ProvisionedPollerConfigProperty{
		MinimumPollers: jsii.Number(p.Source.Pollers.Min), MaximumPollers: jsii.Number(p.Source.Pollers.Max),
		PollerGroupName: textOrNil(p.Source.Pollers.Group),
	}
	if p.Source.Failures == FailPartial {
		props.FunctionResponseTypes = jsii.Strings("ReportBatchItemFailures")
	}
	props.BisectBatchOnFunctionError = !p.Source.KeepBatches
	props.MaximumRetryAttempts = jsii.Number(-1)
	if retries := p.Source.Retries; retries != nil {
		props.MaximumRetryAttempts = jsii.Number(*retries)
	}
	props.MaximumRecordAgeInSeconds = jsii.Number(-1)
	if p.Source.MaxRecordAge > 0 {
		props.MaximumRecordAgeInSeconds = jsii.Number(p.Source.MaxRecordAge.Seconds())
	}
	if destination := c.onFailureDestination(); destination != nil {
		props.DestinationConfig = &awslambda.CfnEventSourceMapping_DestinationConfigProperty{
			OnFailure: &awslambda.CfnEventSourceMapping_OnFailureProperty{Destination: destination},
		}
	}
	props.LoggingConfig = &awslambda.CfnEventSourceMapping_LoggingConfigProperty{SystemLogLevel: jsii.String(
		p.Source.Pollers.Log)}
	props.MetricsConfig = &awslambda.CfnEventSourceMapping_MetricsConfigProperty{Metrics: jsii.Strings(
		"EventCount", "ErrorCount", "KafkaMetrics")}
}

func (c *Consumer) onFailureDestination() *string {
	switch to := c.props.Source.OnFailure; {
	case to.Queue:
		return c.OnFailureQueue.QueueArn()
	case to.BucketARN != "":
		return &to.BucketARN
	case to.Topic != "":
		return jsii.String("kafka://" + to.Topic)
	}
	return nil
}

// access sets the authentication, and the network of a self-managed cluster.
func (p *Props) access() *[]*awslambda.CfnEventSourceMapping_SourceAccessConfigurationProperty {
	var access []*awslambda.CfnEventSourceMapping_SourceAccessConfigurationProperty
	add := func(kind, uri string) {
		access = append(access, &awslambda.CfnEventSourceMapping_SourceAccessConfigurationProperty{Type: &kind, Uri: &uri})
	}
	if kind := accessType[p.Cluster.Auth]; kind != "" {
		add(kind, p.Cluster.SecretARN)
	}
	if p.Cluster.CASecretARN != "" {
		add("SERVER_ROOT_CA_CERTIFICATE", p.Cluster.CASecretARN)
	}
	for _, id := range p.Cluster.SubnetIDs {
		add("VPC_SUBNET", "subnet:"+id)
	}
	for _, id := range p.Cluster.SecurityGroupIDs {
		add("VPC_SECURITY_GROUP", "security_group:"+id)
	}
	if len(access) == 0 {
		return nil
	}
	return &access
}

// accessType is AWS's name of an authentication with a secret.
var accessType = map[Auth]string{
	AuthSCRAM256: "SASL_SCRAM_256_AUTH", AuthSCRAM512: "SASL_SCRAM_512_AUTH", AuthPlain: "BASIC_AUTH",
	AuthMTLS: "CLIENT_CERTIFICATE_TLS_AUTH",
}

func (p *Props) schemaRegistry() *awslambda.CfnEventSourceMapping_SchemaRegistryConfigProperty {
	r := p.Source.SchemaRegistry
	if r == nil {
		return nil
	}
	validate := []*awslambda.CfnEventSourceMapping_SchemaValidationConfigProperty{}
	for _, attribute := range slices.Sorted(slices.Values(r.Validate)) {
		validate = append(validate, &awslambda.CfnEventSourceMapping_SchemaValidationConfigProperty{
			Attribute: jsii.String(strings.ToUpper(attribute))})
	}
	config := &awslambda.CfnEventSourceMapping_SchemaRegistryConfigProperty{SchemaRegistryUri: &r.URI,
		EventRecordFormat: jsii.String(strings.ToUpper(r.Format)), SchemaValidationConfigs: &validate}
	if r.SecretARN != "" {
		config.AccessConfigs = &[]*awslambda.CfnEventSourceMapping_SchemaRegistryAccessConfigProperty{{Type: jsii.String("BASIC_AUTH"), Uri: &r.SecretARN}}
	}
	return config
}

func filterCriteria(patterns []string) *awslambda.CfnEventSourceMapping_FilterCriteriaProperty {
	filters := make([]*awslambda.CfnEventSourceMapping_FilterProperty, len(patterns))
	for i := range patterns {
		filters[i] = &awslambda.CfnEventSourceMapping_FilterProperty{Pattern: &patterns[i]}
	}
	return &awslambda.CfnEventSourceMapping_FilterCriteriaProperty{Filters: &filters}
}

func optionalNumber(n float64) *float64 {
	if n == 0 {
		return nil
	}
	return jsii.Number(math.Round(n))
}

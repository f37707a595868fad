package consumer

import (
	"math"

	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"
)

// addEventSources adds an event source mapping for each topic. They are CloudFormation resources, because the
// CDK's ManagedKafkaEventSource attaches a managed policy with more permissions than necessary and does not
// support mTLS for MSK.
func (c *Consumer) addEventSources() {
	for i, topic := range c.props.Topics {
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
		BatchSize:                      jsii.Number(p.BatchSize),
		StartingPosition:               jsii.String(string(p.StartingPosition)),
		SourceAccessConfigurations:     p.access(),
		MaximumBatchingWindowInSeconds: optionalNumber(p.BatchWindow.Seconds()),
	}
	if p.StartingPosition == AtTimestamp {
		props.StartingPositionTimestamp = jsii.Number(p.StartingTimestamp.Unix())
	}
	if len(p.Filters) > 0 {
		props.FilterCriteria = filterCriteria(p.Filters)
	}
	if p.selfManaged() {
		props.SelfManagedEventSource = &awslambda.CfnEventSourceMapping_SelfManagedEventSourceProperty{
			Endpoints: &awslambda.CfnEventSourceMapping_EndpointsProperty{KafkaBootstrapServers: jsii.Strings(
				p.BootstrapServers...)},
		}
		props.SelfManagedKafkaEventSourceConfig = &awslambda.CfnEventSourceMapping_SelfManagedKafkaEventSourceConfigProperty{
			ConsumerGroupId: &topic.Group, SchemaRegistryConfig: p.schemaRegistry(),
		}
	} else {
		props.EventSourceArn = &p.ClusterARN
		props.AmazonManagedKafkaEventSourceConfig = &awslambda.CfnEventSourceMapping_AmazonManagedKafkaEventSourceConfigProperty{
			ConsumerGroupId: &topic.Group, SchemaRegistryConfig: p.schemaRegistry(),
		}
	}
	if !p.OnDemand {
		c.provisioned(props)
	}
	return props
}

// provisioned sets the properties that are available only in provisioned mode.
func (c *Consumer) provisioned(props *awslambda.CfnEventSourceMappingProps) {
	p := &c.props
	props.ProvisionedPollerConfig = &awslambda.CfnEventSourceMapping_ProvisionedPollerConfigProperty{
		MinimumPollers: jsii.Number(p.Pollers.Min), MaximumPollers: jsii.Number(p.Pollers.Max),
		PollerGroupName: optional(p.Pollers.Group),
	}
	if p.Failures == FailPartial {
		props.FunctionResponseTypes = jsii.Strings("ReportBatchItemFailures")
	}
	props.BisectBatchOnFunctionError = !p.KeepBatches
	props.MaximumRetryAttempts = jsii.Number(-1)
	if p.FiniteRetries {
		props.MaximumRetryAttempts = jsii.Number(p.Retries)
	}
	props.MaximumRecordAgeInSeconds = jsii.Number(-1)
	if p.MaxRecordAge > 0 {
		props.MaximumRecordAgeInSeconds = jsii.Number(p.MaxRecordAge.Seconds())
	}
	if destination := c.onFailureDestination(); destination != nil {
		props.DestinationConfig = &awslambda.CfnEventSourceMapping_DestinationConfigProperty{
			OnFailure: &awslambda.CfnEventSourceMapping_OnFailureProperty{Destination: destination},
		}
	}
	props.LoggingConfig = &awslambda.CfnEventSourceMapping_LoggingConfigProperty{SystemLogLevel: jsii.String(
		string(p.PollerLog))}
	props.MetricsConfig = &awslambda.CfnEventSourceMapping_MetricsConfigProperty{Metrics: jsii.Strings(
		"EventCount", "ErrorCount", "KafkaMetrics")}
}

func (c *Consumer) onFailureDestination() *string {
	switch to := c.props.OnFailure; {
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
	if kind := accessType[p.Auth]; kind != "" {
		add(kind, p.SecretARN)
	}
	if p.CASecretARN != "" {
		add("SERVER_ROOT_CA_CERTIFICATE", p.CASecretARN)
	}
	for _, id := range p.BrokerSubnetIDs {
		add("VPC_SUBNET", "subnet:"+id)
	}
	for _, id := range p.BrokerSecurityGroupIDs {
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
	r := p.SchemaRegistry
	if r == nil {
		return nil
	}
	config := &awslambda.CfnEventSourceMapping_SchemaRegistryConfigProperty{SchemaRegistryUri: &r.URI,
		EventRecordFormat: jsii.String("JSON")}
	if r.Source {
		config.EventRecordFormat = jsii.String("SOURCE")
	}
	validate := []*awslambda.CfnEventSourceMapping_SchemaValidationConfigProperty{}
	if r.ValidateKey {
		validate = append(validate, &awslambda.CfnEventSourceMapping_SchemaValidationConfigProperty{Attribute: jsii.String("KEY")})
	}
	if r.ValidateValue || !r.ValidateKey {
		validate = append(validate, &awslambda.CfnEventSourceMapping_SchemaValidationConfigProperty{Attribute: jsii.String("VALUE")})
	}
	config.SchemaValidationConfigs = &validate
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

package local

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
)

// Wanted selects one of several event source mappings.
type Wanted struct {
	Function string // its name or ARN, with or without its alias; "" is any
	Topic    string // "" is any
}

// FromMapping sets options from a deployed event source mapping on Kafka: the mapping's parameters, the
// function and its timeout. It does not change the options of brokers and authentication. It returns a line
// that describes the mapping.
func FromMapping(ctx context.Context, o *Options, endpoint string, wanted Wanted) (said string, err error) {
	cfg, err := o.AWS(ctx)
	if err != nil {
		return "", err
	}
	client := lambda.NewFromConfig(cfg, func(l *lambda.Options) { l.BaseEndpoint = &endpoint })
	if err := promptly(ctx, func(ctx context.Context) error {
		_, err := client.ListEventSourceMappings(ctx, &lambda.ListEventSourceMappingsInput{})
		return err
	}); err != nil {
		return "", fmt.Errorf("nothing answers at %s: start LocalStack (make localstack-up), or name it with --endpoint-url: %w", endpoint, err)
	}
	mapping, err := findMapping(ctx, client, endpoint, wanted)
	if err != nil {
		return "", err
	}
	// GetFunctionConfiguration of LocalStack does not support aliases.
	function, err := client.GetFunction(ctx, &lambda.GetFunctionInput{FunctionName: mapping.FunctionArn})
	if err != nil {
		return "", fmt.Errorf("the function %s of the event source mapping %s: %w",
			aws.ToString(mapping.FunctionArn), aws.ToString(mapping.UUID), err)
	}
	o.Invoke, o.FunctionName, o.Function, o.Store = endpoint, aws.ToString(mapping.FunctionArn), "", StoreNone
	if c := function.Configuration; c != nil && aws.ToInt32(c.Timeout) > 0 {
		o.ESM.Timeout = seconds(*c.Timeout)
	}
	if err := fill(&o.ESM, mapping); err != nil {
		return "", err
	}
	if err := o.fillRegistry(mapping); err != nil {
		return "", err
	}
	return fmt.Sprintf("Serving the event source mapping %s at %s: topic %s, group %s, batches of %d, to %s.",
		aws.ToString(mapping.UUID), endpoint,
		strings.Join(mapping.Topics, ","), o.ESM.ConsumerGroup, o.ESM.BatchSize, o.FunctionName), nil
}

// findMapping finds the mapping on Kafka that is wanted.
func findMapping(ctx context.Context, client *lambda.Client, endpoint string,
	wanted Wanted) (*types.EventSourceMappingConfiguration, error) {
	var found, others []types.EventSourceMappingConfiguration
	pages := lambda.NewListEventSourceMappingsPaginator(client, &lambda.ListEventSourceMappingsInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing the event source mappings at %s: %w", endpoint, err)
		}
		for i := range page.EventSourceMappings {
			switch m := &page.EventSourceMappings[i]; {
			case !onKafka(m):
			case wanted.fits(m):
				found = append(found, *m)
			default:
				others = append(others, *m)
			}
		}
	}
	switch {
	case len(found) == 0 && len(others) > 0:
		return nil, fmt.Errorf("there is no event source mapping on Kafka at %s%s; there are: %s", endpoint,
			wanted, describe(others))
	case len(found) == 0:
		return nil, fmt.Errorf("there is no event source mapping on Kafka at %s: deploy one (make deploy-local)", endpoint)
	case len(found) > 1:
		return nil, fmt.Errorf("there are %d event source mappings on Kafka at %s%s: name one with --function-name or --topic: %s",
			len(found), endpoint, wanted, describe(found))
	}
	if state := aws.ToString(found[0].State); strings.HasPrefix(state, "Disabl") {
		return nil, fmt.Errorf("the event source mapping %s is %s: enable it with aws lambda update-event-source-mapping --enabled",
			aws.ToString(found[0].UUID), strings.ToLower(state))
	}
	return &found[0], nil
}

// describe lists mappings by what --topic and --function-name can select.
func describe(mappings []types.EventSourceMappingConfiguration) string {
	all := make([]string, 0, len(mappings))
	for i := range mappings {
		all = append(all, fmt.Sprintf("topic %s to %s", strings.Join(mappings[i].Topics, ","),
			functionOf(&mappings[i])))
	}
	return strings.Join(all, "; ")
}

func onKafka(m *types.EventSourceMappingConfiguration) bool {
	return m.AmazonManagedKafkaEventSourceConfig != nil || m.SelfManagedKafkaEventSourceConfig != nil ||
		m.SelfManagedEventSource != nil ||
		strings.HasPrefix(aws.ToString(m.EventSourceArn), "arn:aws:kafka:")
}

func (w Wanted) fits(m *types.EventSourceMappingConfiguration) bool {
	return w.fitsFunction(m) && (w.Topic == "" || slices.Contains(m.Topics, w.Topic))
}

// fitsFunction compares names in the forms that AWS accepts: NAME, NAME:ALIAS, ACCOUNT:function:NAME, or the
// ARN, with or without the alias.
func (w Wanted) fitsFunction(m *types.EventSourceMappingConfiguration) bool {
	arn, name := aws.ToString(m.FunctionArn), functionOf(m)
	bare, alias, _ := strings.Cut(name, ":")
	names := func(arn, name string) bool {
		return len(w.Function) >= len(name) && strings.HasSuffix(":"+arn, ":"+w.Function)
	}
	return w.Function == "" || names(arn, name) || names(strings.TrimSuffix(arn, ":"+alias), bare)
}

// String describes the selection, for messages.
func (w Wanted) String() string {
	text := ""
	if w.Function != "" {
		text += " for the function " + w.Function
	}
	if w.Topic != "" {
		text += " with the topic " + w.Topic
	}
	return text
}

// functionOf returns NAME[:ALIAS] of a mapping's ARN, arn:aws:lambda:REGION:ACCOUNT:function:NAME[:ALIAS].
func functionOf(m *types.EventSourceMappingConfiguration) string {
	arn := aws.ToString(m.FunctionArn)
	if _, name, ok := strings.Cut(arn, ":function:"); ok {
		return name
	}
	return arn
}

// fill sets the parameters of a mapping.
func fill(c *esm.Config, m *types.EventSourceMappingConfiguration) error {
	c.Topics, c.ConsumerGroup = m.Topics, groupOf(m)
	c.EventSourceARN = cmp.Or(aws.ToString(m.EventSourceArn), c.EventSourceARN)
	if m.BatchSize != nil {
		c.BatchSize = int(*m.BatchSize)
	}
	if m.MaximumBatchingWindowInSeconds != nil {
		c.MaximumBatchingWindow = seconds(*m.MaximumBatchingWindowInSeconds)
	}
	if c.StartingPosition = cmp.Or(string(m.StartingPosition),
		c.StartingPosition); m.StartingPositionTimestamp != nil {
		c.StartingPositionTimestamp = *m.StartingPositionTimestamp
	}
	if m.MaximumRetryAttempts != nil {
		c.MaximumRetryAttempts = int(*m.MaximumRetryAttempts)
	}
	if age := aws.ToInt32(m.MaximumRecordAgeInSeconds); age > 0 {
		c.MaximumRecordAge = seconds(age)
	}
	c.BisectBatchOnFunctionError = aws.ToBool(m.BisectBatchOnFunctionError)
	for _, t := range m.FunctionResponseTypes {
		c.FunctionResponseTypes = append(c.FunctionResponseTypes, string(t))
	}
	if p := m.ProvisionedPollerConfig; p != nil {
		c.Pollers = int(max(aws.ToInt32(p.MaximumPollers), aws.ToInt32(p.MinimumPollers), 1))
	}
	if d := m.DestinationConfig; d != nil && d.OnFailure != nil {
		c.OnFailure = aws.ToString(d.OnFailure.Destination)
	}
	if m.FilterCriteria == nil || len(m.FilterCriteria.Filters) == 0 {
		return nil
	}
	type filter struct{ Pattern string }
	filters := struct{ Filters []filter }{}
	for _, f := range m.FilterCriteria.Filters {
		filters.Filters = append(filters.Filters, filter{aws.ToString(f.Pattern)})
	}
	criteria, err := json.Marshal(filters)
	c.FilterCriteria = string(criteria)
	return err
}

// fillRegistry sets the schema registry of a mapping. An address that is set already takes the place of the
// mapping's.
func (o *Options) fillRegistry(m *types.EventSourceMappingConfiguration) error {
	var registry *types.KafkaSchemaRegistryConfig
	if c := m.AmazonManagedKafkaEventSourceConfig; c != nil {
		registry = c.SchemaRegistryConfig
	}
	if c := m.SelfManagedKafkaEventSourceConfig; c != nil {
		registry = cmp.Or(registry, c.SchemaRegistryConfig)
	}
	switch {
	case registry == nil && o.SchemaRegistry == "":
		return nil
	case registry == nil:
		return optionsf("--schema-registry: the event source mapping %s has no schema registry",
			aws.ToString(m.UUID))
	case len(registry.AccessConfigs) > 0 && o.SchemaRegistry == "":
		return optionsf("the schema registry %s of the event source mapping %s needs authentication, which is not supported: replace it by --schema-registry",
			aws.ToString(registry.SchemaRegistryURI), aws.ToString(m.UUID))
	}
	o.SchemaRegistry = cmp.Or(o.SchemaRegistry, aws.ToString(registry.SchemaRegistryURI))
	o.ESM.SchemaRegistry = &esm.SchemaRegistry{EventRecordFormat: string(registry.EventRecordFormat)}
	for _, v := range registry.SchemaValidationConfigs {
		o.ESM.SchemaRegistry.Attributes = append(o.ESM.SchemaRegistry.Attributes, string(v.Attribute))
	}
	return nil
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

// groupOf returns the consumer group. AWS's default is the mapping's UUID.
func groupOf(m *types.EventSourceMappingConfiguration) string {
	group := ""
	if c := m.AmazonManagedKafkaEventSourceConfig; c != nil {
		group = aws.ToString(c.ConsumerGroupId)
	}
	if c := m.SelfManagedKafkaEventSourceConfig; c != nil {
		group = cmp.Or(group, aws.ToString(c.ConsumerGroupId))
	}
	return cmp.Or(group, aws.ToString(m.UUID))
}

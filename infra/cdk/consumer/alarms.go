package consumer

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatchactions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssnssubscriptions"
	"github.com/aws/jsii-runtime-go"

	"github.com/idemsk/idemsk/lambda/eventsource"
)

// Alarms has the settings of the alarms.
type Alarms struct {
	Email string        `form:"email"` // receives all alarms, after it has confirmed the subscription
	Topic awssns.ITopic // receives all alarms
	// MaxLag is the threshold for the lag in records, breached for 15 minutes.
	MaxLag int `default:"100000" range:"1 to 1000000000"`
	// MaxAge is the threshold for RecordAge, the time between production and handling, breached three times
	// within 15 minutes, or within four times Function.Timeout plus a minute if that is longer.
	MaxAge time.Duration `default:"15m" range:"1s to 87600h"`
	// MaxInProgress is the threshold for InProgressAge, the time since the first claim of an unsettled key.
	// It is evaluated as MaxAge is.
	MaxInProgress time.Duration `default:"15m" range:"1s to 87600h"`
}

// The names of the alarms. docs/operations.md has a procedure for each.
const (
	AlarmDeadLetters      = "DeadLetters"      // the dead letter queue has records
	AlarmDeadLettered     = "DeadLettered"     // the function sends records to the dead letter queue
	AlarmOnFailure        = "OnFailure"        // the event source gave up batches; with OnFailure.Queue only
	AlarmLag              = "Lag"              // the consumer falls behind
	AlarmErrors           = "Errors"           // invocations fail
	AlarmThrottles        = "Throttles"        // Lambda refuses invocations
	AlarmDuration         = "Duration"         // invocations take nearly the whole timeout
	AlarmStoreThrottles   = "StoreThrottles"   // DynamoDB refuses writes; with StoreDynamoDB only
	AlarmStoreDown        = "StoreDown"        // the store does not answer
	AlarmFailedOpen       = "FailedOpen"       // handlers run without protection; with Idempotency.StoreDown open only
	AlarmHandlerDown      = "HandlerDown"      // the handler fails for all records
	AlarmBlocked          = "Blocked"          // a record blocks its partition until the cause is fixed
	AlarmFenced           = "Fenced"           // a handler lost its claim: two may have run
	AlarmCompletionFailed = "CompletionFailed" // the outcome of a record could not be stored
	AlarmRecordAge        = "RecordAge"        // records are handled late
	AlarmInProgress       = "InProgress"       // keys stay STARTED
	AlarmOutboxAge        = "OutboxAge"        // events are published late; with Outbox only
	AlarmOutboxParked     = "OutboxParked"     // Kafka rejected events for good; with Outbox only

	// With Maintenance only; AlarmExportDifferences with an export.
	AlarmMaintenance = "Maintenance" // a run failed
	// keys stay STARTED, also those whose records are never redelivered.
	AlarmKeysInProgress    = "KeysInProgress"
	AlarmExportDifferences = "ExportDifferences" // keys and business records differ
)

// canaryAlarms roll back a new version. Each ends when its cause ends. AlarmDeadLetters is not among them,
// because it lasts until the letters are redriven and would roll back the repair.
var canaryAlarms = []string{AlarmErrors, AlarmCompletionFailed, AlarmDeadLettered, AlarmHandlerDown}

// nearTimeout is the fraction of the timeout at which AlarmDuration rises.
const nearTimeout = 0.8

// alarm is an alarm to be added. It rises if `of` datapoints out of `in` minutes breach the threshold.
type alarm struct {
	name, description string
	metric            awscloudwatch.IMetric
	threshold         float64 // breached from this value on
	of, in            int
}

func (c *Consumer) addAlarms() {
	c.addAlarmTopic()
	c.Alarms = make(map[string]awscloudwatch.Alarm)
	for _, a := range slices.Concat(c.deliveryAlarms(), c.storeAlarms(), c.deadLetterAlarms(),
		c.outboxAlarms()) {
		c.addAlarm(a, awscloudwatch.TreatMissingData_NOT_BREACHING) // no data means no events
	}
	for _, a := range c.maintenanceAlarms() {
		c.addAlarm(a, awscloudwatch.TreatMissingData_IGNORE)
	}
}

// span returns the evaluation period in minutes in which `of` datapoints can occur if every invocation takes
// the whole timeout, at least `least`. A blocked partition produces one datapoint in each timeout. One more
// is for late data: Lambda dates its metrics at the start of an invocation and sends them at its end.
func span(of int, timeout time.Duration, least int) int {
	return max(least, (of+1)*int(math.Ceil(timeout.Minutes()))+1)
}

// event returns the alarm on something that must not happen once, from the function's own metric of that name.
func (c *Consumer) event(name, description string) alarm {
	return alarm{name, description, c.own(name, sum), 1, 1, 1}
}

// deliveryAlarms returns the alarms on invocations and on the lag.
func (c *Consumer) deliveryAlarms() []alarm {
	p := &c.props
	late := span(3, p.Function.Timeout, 15)
	return []alarm{
		{AlarmLag, fmt.Sprintf("The consumer has been more than %d records behind for 15 minutes.", p.Alarms.MaxLag),
			c.lambda("OffsetLag", maximum), float64(p.Alarms.MaxLag), 15, 15},
		{AlarmErrors, "Invocations of the function fail: their batches are redelivered.",
			c.lambda("Errors", sum), 1, 3, span(3, p.Function.Timeout, 5)},
		{AlarmThrottles, "Lambda refuses invocations: the account's or the reserved concurrency is used up.",
			c.lambda("Throttles", sum), 1, 3, 5},
		{AlarmDuration, "Invocations take more than 80% of the timeout: at the timeout records are cut off.",
			c.lambda("Duration", maximum), nearTimeout * float64(p.Function.Timeout.Milliseconds()), 2,
			span(2, p.Function.Timeout, 5)},
		{AlarmRecordAge, fmt.Sprintf("Records were handled more than %s after they were produced, in 3 of the last %d minutes.", short(p.Alarms.MaxAge), late),
			c.own("RecordAge", maximum), float64(p.Alarms.MaxAge.Milliseconds()), 3, late},
		{AlarmInProgress, fmt.Sprintf("Keys have been in progress for more than %s, in 3 of the last %d minutes: "+
			"they fail repeatedly, or their owner does not settle them.", short(p.Alarms.MaxInProgress), late),
			c.own("InProgressAge", maximum), float64(p.Alarms.MaxInProgress.Milliseconds()), 3, late},
		{AlarmHandlerDown, "The handler fails for all records: something that it needs is down, or the deployed version is bad. Records wait, and their attempts " +
			"are not counted.", c.own("HandlerDown", sum), 1, 3, span(3, p.Function.Timeout, 5)},
		c.event(AlarmBlocked, "A record blocks its partition until the cause is fixed: its dead letter can't be "+
			"sent, or its key's item can't be read."),
		c.event(AlarmFenced, "A handler lost its claim while it ran. The effects enlisted for its completion "+
			"(atomic mode) were not committed; any other effect may have taken place twice."),
		c.event(AlarmCompletionFailed, "The outcome of a record could not be stored: the record is handled again "+
			"when the lease has ended. Effects enlisted for its completion (atomic mode) take place once; any "+
			"other effect takes place again."),
	}
}

// storeAlarms returns the alarms on the store of keys. An invocation may retry for its whole duration before
// it fails.
func (c *Consumer) storeAlarms() []alarm {
	p := &c.props
	alarms := []alarm{{AlarmStoreDown, "The store of keys does not answer, or refuses: records wait, unless the function fails open.",
		c.own("StoreDown", sum), 1, 3, span(3, p.Function.Timeout, 5)}}
	if c.Table != nil {
		alarms = append(alarms, alarm{AlarmStoreThrottles, "DynamoDB refuses writes to the table of keys.",
			c.table("WriteThrottleEvents", sum), 1, 3, 5})
	}
	if p.Idempotency.StoreDown == "open" {
		alarms = append(alarms, c.event(AlarmFailedOpen, "Handlers run without protection because the store of "+
			"keys does not answer: duplicates take effect again."))
	}
	return alarms
}

// deadLetterAlarms returns the alarms on waiting and on new dead letters.
func (c *Consumer) deadLetterAlarms() []alarm {
	alarms := []alarm{
		{AlarmDeadLetters, "Records that the function gave up are in the dead letter queue, for at most 14 days.",
			depth(c.DeadLetterQueue.QueueName()), 1, 1, 1},
		c.event(AlarmDeadLettered, "The function gives up records and sends them to the dead letter queue."),
	}
	if c.OnFailureQueue != nil {
		alarms = append(alarms, alarm{AlarmOnFailure,
			"The event source gave up batches; their positions are in the on-failure queue for at most 14 days.",
			depth(c.OnFailureQueue.QueueName()), 1, 1, 1})
	}
	return alarms
}

func (c *Consumer) outboxAlarms() []alarm {
	o := c.props.Outbox
	if o == nil {
		return nil
	}
	late := span(3, o.Timeout, 5)
	return []alarm{
		{AlarmOutboxAge, fmt.Sprintf("Events of the outbox have waited more than %s to be sent to Kafka, in 3 of the last %d minutes; "+
			"the stream deletes them after 24 hours.", short(o.MaxAge), late),
			c.relayed("AWS/Lambda", "IteratorAge", maximum), float64(o.MaxAge.Milliseconds()), 3, late},
		{AlarmOutboxParked, "Kafka rejects events of the outbox: they are parked on their items until they are requeued.",
			c.relayed(eventsource.MetricsNamespace, "OutboxParked", sum), 1, 1, 1},
	}
}

func (c *Consumer) addAlarm(a alarm, missing awscloudwatch.TreatMissingData) {
	added := awscloudwatch.NewAlarm(c.Construct, jsii.String("Alarm"+a.name), &awscloudwatch.AlarmProps{
		AlarmDescription:   jsii.String(a.description + " See docs/operations.md, " + a.name + "."),
		Metric:             a.metric,
		Threshold:          jsii.Number(a.threshold),
		ComparisonOperator: awscloudwatch.ComparisonOperator_GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
		EvaluationPeriods:  jsii.Number(a.in),
		DatapointsToAlarm:  jsii.Number(a.of),
		TreatMissingData:   missing,
	})
	if c.AlarmTopic != nil {
		action := awscloudwatchactions.NewSnsAction(c.AlarmTopic)
		added.AddAlarmAction(action)
		added.AddOkAction(action)
	}
	c.Alarms[a.name] = added
}

// addAlarmTopic uses the given topic, or creates one for the email address. With both, the address subscribes
// to the given topic.
func (c *Consumer) addAlarmTopic() {
	p := &c.props
	c.AlarmTopic = p.Alarms.Topic
	if p.Alarms.Email == "" {
		return
	}
	if c.AlarmTopic == nil {
		c.AlarmTopic = c.newAlarmTopic()
	}
	c.AlarmTopic.AddSubscription(awssnssubscriptions.NewEmailSubscription(&p.Alarms.Email, nil))
}

// newAlarmTopic creates a topic that CloudWatch may publish to. It is encrypted only with a customer key,
// because CloudWatch may not use the AWS managed key of SNS.
func (c *Consumer) newAlarmTopic() awssns.ITopic {
	topic := awssns.NewTopic(c.Construct, jsii.String("AlarmTopic"), &awssns.TopicProps{
		EnforceSSL: jsii.Bool(true), MasterKey: c.props.EncryptionKey,
	})
	account := awscdk.Stack_Of(c.Construct).Account()
	topic.AddToResourcePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: jsii.String("Alarms"), Actions: jsii.Strings("sns:Publish"),
		Resources: jsii.Strings(*topic.TopicArn()),
		Principals: &[]awsiam.IPrincipal{awsiam.NewServicePrincipal(jsii.String("cloudwatch.amazonaws.com"),
			nil)},
		Conditions: &map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": account}},
	}))
	return topic
}

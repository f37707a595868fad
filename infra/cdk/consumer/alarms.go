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

	"github.com/idemsk/idemsk/lambda/msk"
)

// The names of the alarms; docs/operations.md says what to do about each.
const (
	AlarmDeadLetters      = "DeadLetters"      // records that the function gave up wait
	AlarmDeadLettered     = "DeadLettered"     // the function gives records up
	AlarmOnFailure        = "OnFailure"        // the event source gave batches up; with OnFailure.Queue only
	AlarmLag              = "Lag"              // the consumer falls behind
	AlarmErrors           = "Errors"           // invocations fail
	AlarmThrottles        = "Throttles"        // Lambda refuses invocations
	AlarmDuration         = "Duration"         // invocations come near their timeout
	AlarmStoreThrottles   = "StoreThrottles"   // DynamoDB refuses writes; with StoreDynamoDB only
	AlarmStoreDown        = "StoreDown"        // the store does not answer
	AlarmFailedOpen       = "FailedOpen"       // handlers run without protection; with StoreDown open only
	AlarmBlocked          = "Blocked"          // a record holds up its partition until somebody mends the cause
	AlarmFenced           = "Fenced"           // a handler lost its lock: two may have run
	AlarmCompletionFailed = "CompletionFailed" // what became of a record could not be recorded
	AlarmRecordAge        = "RecordAge"        // records are handled late
	AlarmInProgress       = "InProgress"       // keys stay STARTED
	AlarmOutboxAge        = "OutboxAge"        // events are published late; with Outbox only
	AlarmOutboxSetAside   = "OutboxSetAside"   // Kafka rejected events for good; with Outbox only
)

// canaryAlarms take a new version back. Each is over by itself when what it is about is over: AlarmDeadLetters is not among
// them, because letters wait until the repair is deployed, and it would take that back.
var canaryAlarms = []string{AlarmErrors, AlarmCompletionFailed, AlarmDeadLettered}

// nearTimeout is the share of the timeout at which AlarmDuration rises.
const nearTimeout = 0.8

// alarm is one to be added: breached in `of` minutes out of `in`.
type alarm struct {
	name, description string
	metric            awscloudwatch.IMetric
	threshold         float64 // breached from this value on
	of, in            int
}

func (c *Consumer) addAlarms() {
	c.addAlarmTopic()
	c.Alarms = make(map[string]awscloudwatch.Alarm)
	for _, a := range slices.Concat(c.deliveryAlarms(), c.storeAlarms(), c.deadLetterAlarms(), c.outboxAlarms()) {
		c.addAlarm(a)
	}
}

// span is how many minutes to look back on so as to see what happens in `of` of them, and at least `least`, if every invocation takes
// the whole timeout: a partition that is stuck then makes one datapoint in that time. One more is for what comes late: Lambda
// dates its metrics at the beginning of an invocation, and sends them at its end.
func span(of int, timeout time.Duration, least int) int {
	return max(least, (of+1)*int(math.Ceil(timeout.Minutes()))+1)
}

// deliveryAlarms are about invocations, and how far behind they are.
func (c *Consumer) deliveryAlarms() []alarm {
	p := &c.props
	late := span(3, p.Timeout, 15)
	return []alarm{
		{AlarmLag, fmt.Sprintf("The consumer has been more than %d records behind for 15 minutes.", p.MaxLag),
			c.lambda("OffsetLag", maximum), float64(p.MaxLag), 15, 15},
		{AlarmErrors, "Invocations of the function fail: their batches come again.", c.lambda("Errors", sum), 1, 3, span(3, p.Timeout, 5)},
		{AlarmThrottles, "Lambda refuses invocations: the account's or the reserved concurrency is used up.", c.lambda("Throttles", sum), 1, 3, 5},
		{AlarmDuration, "Invocations take more than 80% of the timeout: at the timeout records are cut off.",
			c.lambda("Duration", maximum), nearTimeout * float64(p.Timeout.Milliseconds()), 2, span(2, p.Timeout, 5)},
		{AlarmRecordAge, fmt.Sprintf("Records were handled more than %s after they were produced, in 3 of the last %d minutes.", short(p.MaxAge), late),
			c.own("RecordAge", maximum), float64(p.MaxAge.Milliseconds()), 3, late},
		{AlarmInProgress, fmt.Sprintf("Keys were met that had been in progress for more than %s, in 3 of the last %d minutes: "+
			"they fail again and again, or wait for an owner that does not settle them.", short(p.MaxInProgress), late),
			c.own("InProgressAge", maximum), float64(p.MaxInProgress.Milliseconds()), 3, late},
		{AlarmBlocked, "A record holds up its partition until somebody mends the cause: its dead letter can't be sent, or its key's item can't be read.",
			c.own("Blocked", sum), 1, 1, 1},
		{AlarmFenced, "A handler lost its lock while it ran. What it had enlisted for its completion (atomic mode) was not committed; " +
			"any other effect of it may have taken place twice.", c.own("Fenced", sum), 1, 1, 1},
		{AlarmCompletionFailed, "What became of a record could not be recorded: it is handled again when the lease is over. " +
			"What was enlisted for its completion (atomic mode) takes place once all the same; any other effect takes place again.",
			c.own("CompletionFailed", sum), 1, 1, 1},
	}
}

// storeAlarms are about the store of keys. An invocation may try for its whole time before it gives up.
func (c *Consumer) storeAlarms() []alarm {
	p := &c.props
	alarms := []alarm{{AlarmStoreDown, "The store of keys does not answer, or refuses: records wait, unless the function fails open.",
		c.own("StoreDown", sum), 1, 3, span(3, p.Timeout, 5)}}
	if c.Table != nil {
		alarms = append(alarms, alarm{AlarmStoreThrottles, "DynamoDB refuses writes to the table of keys.", c.table("WriteThrottleEvents", sum), 1, 3, 5})
	}
	if p.StoreDown == "open" {
		alarms = append(alarms, alarm{AlarmFailedOpen, "Handlers run without protection, as the store of keys does not answer: duplicates take effect again.",
			c.own("FailedOpen", sum), 1, 1, 1})
	}
	return alarms
}

// deadLetterAlarms are about what was given up: that it waits, until somebody redrives it, and that more comes.
func (c *Consumer) deadLetterAlarms() []alarm {
	alarms := []alarm{
		{AlarmDeadLetters, "Records that the function gave up wait in the dead letter queue, for at most 14 days.",
			depth(c.DeadLetterQueue.QueueName()), 1, 1, 1},
		{AlarmDeadLettered, "The function gives records up: they go to the dead letter queue.", c.own("DeadLettered", sum), 1, 1, 1},
	}
	if c.OnFailureQueue != nil {
		alarms = append(alarms, alarm{AlarmOnFailure, "The event source gave batches up; where they were is in the on-failure queue for at most 14 days.",
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
			"the stream forgets them after 24 hours.", short(o.MaxAge), late),
			c.relayed("AWS/Lambda", "IteratorAge", maximum), float64(o.MaxAge.Milliseconds()), 3, late},
		{AlarmOutboxSetAside, "Kafka rejects events of the outbox: they are set aside on their items, and wait to be requeued.",
			c.relayed(msk.MetricsNamespace, "OutboxSetAside", sum), 1, 1, 1},
	}
}

func (c *Consumer) addAlarm(a alarm) {
	added := awscloudwatch.NewAlarm(c.Construct, jsii.String("Alarm"+a.name), &awscloudwatch.AlarmProps{
		AlarmDescription:   jsii.String(a.description + " See docs/operations.md, " + a.name + "."),
		Metric:             a.metric,
		Threshold:          jsii.Number(a.threshold),
		ComparisonOperator: awscloudwatch.ComparisonOperator_GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
		EvaluationPeriods:  jsii.Number(a.in),
		DatapointsToAlarm:  jsii.Number(a.of),
		TreatMissingData:   awscloudwatch.TreatMissingData_NOT_BREACHING, // nothing happened
	})
	if c.AlarmTopic != nil {
		action := awscloudwatchactions.NewSnsAction(c.AlarmTopic)
		added.AddAlarmAction(action)
		added.AddOkAction(action)
	}
	c.Alarms[a.name] = added
}

// addAlarmTopic makes a topic for the address, or takes the one that is given. With both, the address subscribes to that.
func (c *Consumer) addAlarmTopic() {
	p := &c.props
	c.AlarmTopic = p.AlarmTopic
	if p.AlarmEmail == "" {
		return
	}
	if c.AlarmTopic == nil {
		c.AlarmTopic = c.newAlarmTopic()
	}
	c.AlarmTopic.AddSubscription(awssnssubscriptions.NewEmailSubscription(&p.AlarmEmail, nil))
}

// newAlarmTopic makes a topic that CloudWatch may publish to. It is encrypted with a customer key only: CloudWatch may not use
// AWS's own key of SNS.
func (c *Consumer) newAlarmTopic() awssns.ITopic {
	topic := awssns.NewTopic(c.Construct, jsii.String("AlarmTopic"), &awssns.TopicProps{
		EnforceSSL: jsii.Bool(true), MasterKey: c.props.EncryptionKey,
	})
	account := awscdk.Stack_Of(c.Construct).Account()
	topic.AddToResourcePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: jsii.String("Alarms"), Actions: jsii.Strings("sns:Publish"), Resources: jsii.Strings(*topic.TopicArn()),
		Principals: &[]awsiam.IPrincipal{awsiam.NewServicePrincipal(jsii.String("cloudwatch.amazonaws.com"), nil)},
		Conditions: &map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": account}},
	}))
	return topic
}

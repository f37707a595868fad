package consumer

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/interfaces/interfacesawscloudwatch"
	"github.com/aws/jsii-runtime-go"

	"github.com/idemsk/idemsk/lambda/eventsource"
)

// addDashboard adds a dashboard with the alarms, the outcomes of records, and the state of the components.
func (c *Consumer) addDashboard() {
	c.Dashboard = awscloudwatch.NewDashboard(c.Construct, jsii.String("Dashboard"),
		&awscloudwatch.DashboardProps{
			DefaultInterval: awscdk.Duration_Hours(jsii.Number(3)),
		})
	alarms := make([]interfacesawscloudwatch.IAlarmRef, 0, len(c.Alarms))
	for _, name := range c.alarmNames() {
		alarms = append(alarms, c.Alarms[name])
	}
	c.Dashboard.AddWidgets(awscloudwatch.NewAlarmStatusWidget(&awscloudwatch.AlarmStatusWidgetProps{
		Title: jsii.String("Alarms of " + c.props.Source.ConsumerGroup), Alarms: &alarms, Width: jsii.Number(24),
		Height: jsii.Number(3),
	}))
	c.Dashboard.AddWidgets(
		graph("Outcomes: records", true,
			c.owns(sum, "Executed", "Replayed", "ReplayedFailed", "Duplicates", "InFlight", "Retried",
				"DeadLettered",
				"FailedOpen", "NotStarted")...),
		graph("Faults: records", false, c.owns(sum, "Stolen", "Fenced", "Blocked", "CompletionFailed",
			"Reported", "StoreDown", "Overruns",
			"HandlerDown")...),
		graph("Age of records and of keys in progress: ms", false, c.own("RecordAge", median),
			c.own("RecordAge", maximum), c.own("InProgressAge", maximum)),
	)
	c.Dashboard.AddWidgets(
		graph("Behind: records", false, c.lambda("OffsetLag", maximum)),
		graph("Dead letters waiting", false, c.depths()...),
		graph("Batch: records", false, c.own("BatchSize", average), c.own("BatchSize", maximum)),
	)
	c.Dashboard.AddWidgets(
		graph("Invocations", false, c.lambda("Invocations", sum), c.lambda("Errors", sum),
			c.lambda("Throttles", sum),
			c.lambda("ConcurrentExecutions", maximum)),
		graph("Duration: ms", false, c.lambda("Duration", median), c.lambda("Duration", tail),
			c.lambda("Duration", maximum)),
		graph("Store", false, c.storeMetrics()...),
	)
	c.showOutbox()
	c.showMaintenance()
}

func (c *Consumer) showOutbox() {
	if c.Outbox == nil {
		return
	}
	const own, lambda = eventsource.MetricsNamespace, "AWS/Lambda"
	c.Dashboard.AddWidgets(
		graph("Outbox: events", false, c.relayed(own, "OutboxPublished", sum),
			c.relayed(own, "OutboxRejected", sum), c.relayed(own, "OutboxParked", sum),
			c.relayed(own, "OutboxItems", sum), c.relayed(own, "OutboxFailed", sum)),
		graph("Outbox: age, ms", false, c.relayed(lambda, "IteratorAge", maximum),
			c.relayed(own, "OutboxAge", maximum)),
		graph("Relay", false, c.relayed(lambda, "Invocations", sum), c.relayed(lambda, "Errors", sum),
			c.relayed(lambda, "Throttles", sum),
			c.relayed(own, "OutboxDuration", maximum)),
	)
}

func (c *Consumer) owns(statistic string, names ...string) []awscloudwatch.IMetric {
	metrics := make([]awscloudwatch.IMetric, len(names))
	for i, name := range names {
		metrics[i] = c.own(name, statistic)
	}
	return metrics
}

func (c *Consumer) storeMetrics() []awscloudwatch.IMetric {
	metrics := []awscloudwatch.IMetric{c.own("StoreLatency", median), c.own("StoreLatency", tail)}
	if c.Table != nil {
		metrics = append(metrics, c.table("ConsumedWriteCapacityUnits", sum),
			c.table("WriteThrottleEvents", sum))
	}
	return metrics
}

func (c *Consumer) depths() []awscloudwatch.IMetric {
	depths := []awscloudwatch.IMetric{depth(c.DeadLetterQueue.QueueName())}
	if c.OnFailureQueue != nil {
		depths = append(depths, depth(c.OnFailureQueue.QueueName()))
	}
	return depths
}

func graph(title string, stacked bool, metrics ...awscloudwatch.IMetric) awscloudwatch.IWidget {
	return awscloudwatch.NewGraphWidget(&awscloudwatch.GraphWidgetProps{
		Title: &title, Left: &metrics, Stacked: &stacked, Width: jsii.Number(8), Height: jsii.Number(6),
	})
}

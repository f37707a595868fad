package consumer

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/jsii-runtime-go"

	"github.com/idemsk/idemsk/lambda/eventsource"
)

// The statistics that alarms and dashboard use.
const (
	sum     = "Sum"
	maximum = "Maximum"
	average = "Average"
	median  = "p50"
	tail    = "p99"
)

// own returns a metric that the function writes to its log in EMF.
func (c *Consumer) own(name, statistic string) awscloudwatch.Metric {
	return metric(eventsource.MetricsNamespace, name, statistic, "FunctionName", c.Function.FunctionName())
}

// lambda returns a metric of Lambda for the function. OffsetLag is the maximum of all event sources.
func (c *Consumer) lambda(name, statistic string) awscloudwatch.Metric {
	return metric("AWS/Lambda", name, statistic, "FunctionName", c.Function.FunctionName())
}

// maintained returns a metric of the maintenance, Lambda's or its own.
func (c *Consumer) maintained(namespace, name, statistic string) awscloudwatch.Metric {
	return metric(namespace, name, statistic, "FunctionName", c.Maintenance.Function.FunctionName())
}

// relayed returns a metric of the relay, Lambda's or the relay's own.
func (c *Consumer) relayed(namespace, name, statistic string) awscloudwatch.Metric {
	return metric(namespace, name, statistic, "FunctionName", c.Outbox.Relay.FunctionName())
}

func (c *Consumer) table(name, statistic string) awscloudwatch.Metric {
	return metric("AWS/DynamoDB", name, statistic, "TableName", c.Table.TableName())
}

func depth(queue *string) awscloudwatch.Metric {
	return metric("AWS/SQS", "ApproximateNumberOfMessagesVisible", maximum, "QueueName", queue)
}

func metric(namespace, name, statistic, dimension string, value *string) awscloudwatch.Metric {
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace: &namespace, MetricName: &name, Statistic: &statistic,
		DimensionsMap: &map[string]*string{dimension: value},
		Period:        awscdk.Duration_Minutes(jsii.Number(1)),
	})
}

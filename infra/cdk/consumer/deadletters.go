package consumer

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"
)

// addDeadLetters adds the queue of records that the function gives up and, if configured, the queue of
// batches that the event sources give up. SQS keeps messages for at most fourteen days.
func (c *Consumer) addDeadLetters() {
	c.DeadLetterQueue = c.newQueue("DeadLetters")
	if c.props.Source.OnFailure.Queue {
		c.OnFailureQueue = c.newQueue("OnFailure")
	}
}

func (c *Consumer) newQueue(id string) awssqs.Queue {
	props := &awssqs.QueueProps{
		RetentionPeriod: awscdk.Duration_Days(jsii.Number(14)),
		EnforceSSL:      jsii.Bool(true),
		Encryption:      awssqs.QueueEncryption_SQS_MANAGED,
		RemovalPolicy:   c.props.RemovalPolicy,
	}
	if key := c.props.EncryptionKey; key != nil {
		props.Encryption, props.EncryptionMasterKey = awssqs.QueueEncryption_KMS, key
	}
	return awssqs.NewQueue(c.Construct, &id, props)
}

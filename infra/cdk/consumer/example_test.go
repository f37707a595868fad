package consumer_test

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

// A consumer of one topic, with keys in DynamoDB. The example is compiled, not run: it needs Node.
func Example() {
	defer jsii.Close()
	app := awscdk.NewApp(nil)
	stack := awscdk.NewStack(app, jsii.String("payments"), nil)
	consumer.New(stack, "Payments", consumer.Props{
		Function: consumer.Function{Code: "../dist", Timeout: 2 * time.Minute},
		Cluster:  consumer.Cluster{ARN: cluster},
		Source: consumer.Source{
			Topics:        []consumer.Topic{{Name: "payments"}},
			ConsumerGroup: "payments-ledger",
		},
		Idempotency: consumer.Idempotency{MaxAttempts: 3, RetryDelay: new(time.Duration)}, // no delay
		Alarms:      consumer.Alarms{Email: "oncall@example.com"},
	})
	app.Synth(nil)
}

// Keys in PostgreSQL, and finite retries of the event source.
func Example_postgres() {
	defer jsii.Close()
	app := awscdk.NewApp(nil)
	stack := awscdk.NewStack(app, jsii.String("payments"), nil)
	consumer.New(stack, "Payments", consumer.Props{
		Function: consumer.Function{Code: "../dist"},
		Cluster:  consumer.Cluster{ARN: cluster},
		Source: consumer.Source{
			Topics: []consumer.Topic{{Name: "payments"}}, ConsumerGroup: "payments-ledger",
			Retries:   new(20),
			OnFailure: consumer.OnFailure{Queue: true},
		},
		Store: consumer.Store{Type: consumer.StorePostgres, SecretARN: secret},
	})
	app.Synth(nil)
}

// The CDK app: one stack with one consumer of your own code, or with the example and its table. Values of the
// CDK's context (-c name=value, or cdk.json) set what README.md lists; all else is in props.go, which is yours.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/jsii-runtime-go"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

func main() {
	if err := synth(context.Background()); err != nil {
		fmt.Fprintf(os.Stderr, "idemsk: the stack can't be synthesised:\n%v\n", err)
		os.Exit(1)
	}
}

func synth(ctx context.Context) error {
	if err := requireNode(ctx); err != nil {
		return err
	}
	defer jsii.Close()
	app := awscdk.NewApp(nil)
	given, _ := app.Node().GetAllContext(nil).(map[string]any)
	d, err := readContext(given)
	if err != nil {
		return err
	}
	if _, err = d.newStack(ctx, app); err == nil {
		app.Synth(nil)
	}
	return err
}

// newStack adds the stack with the consumer, and with the ledger of the example.
func (d *deployment) newStack(ctx context.Context, app awscdk.App) (awscdk.Stack, error) {
	stack := awscdk.NewStack(app, &d.stackName, stackProps())
	if d.alarmTopicARN != "" {
		d.props.Alarms.Topic = awssns.Topic_FromTopicArn(stack, jsii.String("AlarmTopic"), &d.alarmTopicARN)
	}
	customise(stack, &d.props)
	if err := d.buildAndCheck(ctx); err != nil {
		return nil, err
	}
	stack.TemplateOptions().SetDescription(jsii.String("idemsk: idempotent consumer of Kafka topic " + d.props.Source.Topics[0].Name))
	c := consumer.New(stack, "Consumer", d.props)
	if d.example != "" && c.Table != nil { // with another store the ledger is in its database
		addLedger(stack, c, &d.props)
	}
	c.AddOutputs()
	return stack, nil
}

// The CDK app: one stack with one consumer, and with the ledger's table if the function is the example. Its
// settings come from the CDK's context (-c name=value, or cdk.json) or the environment; README.md has a table
// of them.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
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
	s, err := readSettings(given, os.LookupEnv)
	if err != nil {
		return err
	}
	newStack(app, s)
	app.Synth(nil)
	return nil
}

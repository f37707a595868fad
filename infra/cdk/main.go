// The CDK app: one stack with one consumer of your own code, or with the example and its table. Its settings
// come from the CDK's context (-c name=value, or cdk.json) or the environment; README.md has a table of them.
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
	s, err := readSettings(given, os.Environ())
	if err != nil {
		return err
	}
	if err := s.buildAndCheck(ctx, runBuild); err != nil {
		return err
	}
	newStack(app, s)
	app.Synth(nil)
	return nil
}

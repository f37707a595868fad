// The CDK app of make aws-check: two stacks that one run of the check deploys and destroys. Settings are
// values of the CDK's context; the program in cmd/idemsk/internal/awscheck sets them.
package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

func main() {
	if err := synth(); err != nil {
		fmt.Fprintf(os.Stderr, "aws-check: the stacks can't be synthesised: %v\n", err)
		os.Exit(1)
	}
}

func synth() error {
	defer jsii.Close()
	app := awscdk.NewApp(nil)
	context, _ := app.Node().GetAllContext(nil).(map[string]any)
	s, err := readSettings(context)
	if err != nil {
		return err
	}
	newStacks(app, s)
	app.Synth(nil)
	return nil
}

// settings are the values of the context.
type settings struct {
	name         string // of the stacks, and of everything that has a name of its own
	architecture consumer.Architecture
	handler      string // the folder of the example function's program
	producer     string // the folder of the producer's program
	// onDemand selects the pollers on demand, which need endpoints in the cluster's VPC, and no partial
	// failures.
	onDemand bool
	// local leaves out the stack of the cluster, because LocalStack has neither a VPC nor brokers.
	local bool
}

func readSettings(context map[string]any) (*settings, error) {
	text := func(name string) string { value, _ := context[name].(string); return value }
	s := &settings{name: text("name"), architecture: consumer.Architecture(text("architecture")),
		handler: text("handler"), producer: text("producer")}
	for name, value := range map[string]string{"name": s.name, "architecture": string(s.architecture),
		"handler": s.handler, "producer": s.producer} {
		if value == "" {
			return nil, fmt.Errorf("the context has no %s: run make aws-check", name)
		}
	}
	for name, to := range map[string]*bool{"onDemand": &s.onDemand, "local": &s.local} {
		if text(name) == "" {
			continue
		}
		value, err := strconv.ParseBool(text(name))
		if err != nil {
			return nil, fmt.Errorf("%s is %q: want true or false", name, text(name))
		}
		*to = value
	}
	return s, nil
}

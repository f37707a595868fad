// Package layerproxy is the Lambda layer: a program between the runtime of a function and the Runtime API.
//
// Lambda starts the program by the wrapper script instead of the function's runtime
// (AWS_LAMBDA_EXEC_WRAPPER), with the command of the runtime as its arguments. It starts that command with
// AWS_LAMBDA_RUNTIME_API pointing at itself. From the event of Kafka or of an SQS queue it removes the
// records that have completed before, passes the others to the function, and settles their keys by its
// answer. Everything else passes through unchanged. docs/layer.md has the set-up and the limits.
//
// https://docs.aws.amazon.com/lambda/latest/dg/runtimes-modify.html
// https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html
package layerproxy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/idemsk/idemsk/app/lambda"
)

// maxConcurrency is the variable that Lambda Managed Instances set for runtimes that poll for several
// invocations at once.
const maxConcurrency = "AWS_LAMBDA_MAX_CONCURRENCY"

// Main runs a runtime's command, and ends this process as the runtime ends.
func Main(command []string, options ...lambda.Option) {
	runtime.LockOSThread() // the runtime's process is killed when the thread that started it ends
	if err := run(command, options); err != nil {
		fmt.Fprintf(os.Stderr, "idemsk: the layer: %v\n", err)
		os.Exit(1)
	}
}

// run is Main. It returns only with an error.
func run(command []string, options []lambda.Option) error {
	if len(command) == 0 {
		return errors.New("it has no command: set AWS_LAMBDA_EXEC_WRAPPER to the layer's script, and Lambda passes the command of the runtime")
	}
	address := os.Getenv(runtimeAPI)
	if address == "" {
		return fmt.Errorf("%s is not set: Lambda sets it, and so does idemsk local", runtimeAPI)
	}
	if n := os.Getenv(maxConcurrency); n != "" && n != "1" {
		return fmt.Errorf("%s is %s: the layer handles one invocation at a time: set the maximum concurrency of the function's execution environments to 1",
			maxConcurrency, n)
	}
	up := newUpstream(address)
	api, err := serve(up)
	if err != nil {
		return err
	}
	child, err := startChild(command, api.address())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- newLayer(up, api, options).run(ctx) }()
	select {
	case err := <-ended:
		child.kill()
		return err
	case <-child.exited:
	}
	api.drain()
	if cancel(); !api.isOpen() {
		// otherwise the runtime ended in a call, whose keys stay claimed until their leases end
		if err := <-ended; err != nil { // when the records of the calls before are settled and reported
			fmt.Fprintf(os.Stderr, "idemsk: the layer: %v\n", err)
		}
	}
	child.exitAlike()
	return nil
}

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
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/idemsk/idemsk/app/lambda"
)

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
	invocations := lambdacontext.MaxConcurrency() // more than 1 on Lambda Managed Instances
	up := newUpstream(address, invocations)
	api, err := serve(up, invocations)
	if err != nil {
		return err
	}
	child, err := startChild(command, api.address())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l := newLayer(up, api, child.exited, options)
	loops := startLoops(invocations, func() error { return l.run(ctx) })
	for gone := false; !gone && loops.left > 0; {
		select {
		case err := <-loops.ended: // with an error: the others end what they have begun
			loops.note(err)
			cancel()
		case <-child.exited:
			gone = true
		}
	}
	if loops.left == 0 {
		child.kill()
		return loops.err
	}
	api.drain()
	cancel()
	// A loop ends when the records of its calls are settled and reported, unless a process of the runtime may still
	// answer its call, whose keys stay claimed until their leases end.
	for loops.left > api.unanswered() {
		loops.note(<-loops.ended)
	}
	if loops.err != nil {
		fmt.Fprintf(os.Stderr, "idemsk: the layer: %v\n", loops.err)
	}
	child.exitAlike()
	return nil
}

// loops handle one invocation each at a time.
type loops struct {
	ended chan error // gets the end of each
	left  int        // whose end was not noted
	err   error      // the first that was noted
}

func startLoops(n int, run func() error) *loops {
	l := &loops{ended: make(chan error, n), left: n}
	for range n {
		go func() { l.ended <- run() }()
	}
	return l
}

func (l *loops) note(err error) {
	l.left--
	l.err = cmp.Or(l.err, err)
}

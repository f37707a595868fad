package redrive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/internal/mskevent/redriven"
	"github.com/idemsk/idemsk/kafka"
)

// Lambda is what is needed of a *lambda.Client.
type Lambda interface {
	Invoke(ctx context.Context, in *lambda.InvokeInput,
		optFns ...func(*lambda.Options)) (*lambda.InvokeOutput, error)
}

// function invokes the function with a letter's record, at its old place.
type function struct {
	client Lambda
	name   string
}

var _ Destination = (*function)(nil)

// Function returns a function as a destination.
func Function(client Lambda, name string) Destination { return &function{client: client, name: name} }

// invokeTimeout is above the 15 minutes that a function may run:
// https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
const invokeTimeout = 16 * time.Minute

func (f *function) String() string { return "the function " + f.name }

func (f *function) Send(ctx context.Context, l *kafka.DeadLetter) (where string, err error) {
	ctx, cancel := context.WithTimeout(ctx, invokeTimeout)
	defer cancel()
	out, err := f.client.Invoke(ctx, &lambda.InvokeInput{
		FunctionName: &f.name, Payload: redriven.Event(l),
		InvocationType: types.InvocationTypeRequestResponse,
	})
	if err != nil {
		return "", f.explain(err)
	}
	if out.FunctionError != nil {
		return "", fmt.Errorf("%s failed (%s): %s", f, *out.FunctionError, mskevent.ErrorMessage(out.Payload))
	}
	what, err := redriven.Verdict(l, out.Payload)
	if err != nil {
		return "", fmt.Errorf("%s %w", f, err)
	}
	return f.String() + ": " + what, nil
}

func (f *function) explain(err error) error {
	var missing *types.ResourceNotFoundException
	hint := ""
	if errors.As(err, &missing) {
		hint = " (there is no such function in this account and region: check --function-name and --region)"
	}
	return fmt.Errorf("invoking %s: %w%s", f, err, hint)
}

package redrive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/kafka"
)

// Lambda is what is needed of a *lambda.Client.
type Lambda interface {
	Invoke(ctx context.Context, in *lambda.InvokeInput, optFns ...func(*lambda.Options)) (*lambda.InvokeOutput, error)
}

// function invokes the function with a letter's record, at its old place.
type function struct {
	client Lambda
	name   string
}

var _ Destination = (*function)(nil)

// Function returns a function as a destination.
func Function(client Lambda, name string) Destination { return &function{client: client, name: name} }

// invokeTimeout is above the 15 minutes that a function may run: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
const invokeTimeout = 16 * time.Minute

func (f *function) String() string { return "the function " + f.name }

func (f *function) Send(ctx context.Context, l *kafka.DeadLetter) (where string, err error) {
	ctx, cancel := context.WithTimeout(ctx, invokeTimeout)
	defer cancel()
	out, err := f.client.Invoke(ctx, &lambda.InvokeInput{
		FunctionName: &f.name, Payload: eventOf(l), InvocationType: types.InvocationTypeRequestResponse,
	})
	if err != nil {
		return "", f.explain(err)
	}
	if out.FunctionError != nil {
		return "", fmt.Errorf("%s failed (%s): %s", f, *out.FunctionError, mskevent.ErrorMessage(out.Payload))
	}
	if err := settled(out.Payload, l.Source()); err != nil {
		return "", fmt.Errorf("%s %w", f, err)
	}
	return f.verdict(outcomeOf(out.Payload, l.Source()))
}

// noTimestamp is how Kafka says that a record has none.
const noTimestamp = -1

// eventOf is the event of a letter's record alone.
func eventOf(l *kafka.DeadLetter) []byte {
	m := mskevent.Message{
		Topic: l.Topic, Partition: l.Partition, Offset: l.Offset, Timestamp: l.Timestamp, TimestampType: l.TimestampType,
		Key: l.Key, Value: l.Value,
	}
	if m.Timestamp == 0 {
		m.Timestamp = noTimestamp
	}
	for _, h := range headers(l) {
		m.Headers = append(m.Headers, mskevent.Header(h))
	}
	return mskevent.Cluster(l.Cluster).WithOutcomes().Messages(m)
}

// settled returns an error unless the answer says that the record is done with.
func settled(payload []byte, source string) error {
	failed, listed, err := mskevent.Failures(payload, func(p mskevent.Place) bool { return p.String() == source })
	switch {
	case err != nil || !listed:
		return fmt.Errorf("returned a response that is not a partial batch response (does it use idemsk?): %.200s", payload)
	case len(failed) > 0:
		return errors.New("reported the record as not settled: it is in flight in another invocation, or it failed again and will be retried; see the function's log")
	}
	return nil
}

// outcomeOf returns the outcome of the record in the function's answer, "" if there is none.
func outcomeOf(payload []byte, source string) string {
	for place, outcome := range mskevent.Outcomes(payload) {
		if place.String() == source {
			return outcome
		}
	}
	return ""
}

// verdict says what became of a record. The letter must not go unless the outcome proves that the record itself was settled now or before, or has a
// new letter: a record whose key is FAILED still counts as settled for the event source, but nothing was done.
func (f *function) verdict(outcome string) (where string, err error) {
	switch outcome {
	case idem.Executed.String():
		return f.String() + ": executed", nil
	case idem.FailedOpen.String(), idem.Unprotected.String():
		return f.String() + ": executed, without protection", nil
	case idem.Replayed.String():
		return f.String() + ": had been done already", nil
	case idem.DeadLettered.String():
		return f.String() + ": failed again, see its new dead letter", nil
	case idem.ReplayedFailed.String():
		return "", fmt.Errorf("%s found the key FAILED still, and did nothing: there is a later dead letter of it to redrive, "+
			"or the record has no usable key still: then fix that, and redrive it to its topic (--brokers without --function-name)", f)
	}
	return "", fmt.Errorf("%s reports no failure, but its answer does not name the outcome of the record (%q), so the letter stays: "+
		"does the function use this version of idemsk? If not, redrive it to its topic (--brokers without --function-name)", f, outcome)
}

func (f *function) explain(err error) error {
	var missing *types.ResourceNotFoundException
	hint := ""
	if errors.As(err, &missing) {
		hint = " (there is no such function in this account and region: check --function-name and --region)"
	}
	return fmt.Errorf("invoking %s: %w%s", f, err, hint)
}

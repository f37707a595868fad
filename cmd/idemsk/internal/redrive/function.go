package redrive

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/metrics"
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
		FunctionName: &f.name, Payload: eventOf(l), InvocationType: types.InvocationTypeRequestResponse, LogType: types.LogTypeTail,
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
	return f.verdict(l, aws.ToString(out.LogResult))
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
	return mskevent.Cluster(l.Cluster).Messages(m)
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

// verdict says what became of a record that the function calls settled, as far as the end of its log tells. It may be
// settled because its key is FAILED still: then nothing was done, and the letter must not go.
func (f *function) verdict(l *kafka.DeadLetter, logTail string) (where string, err error) {
	o, ok := outcomes(logTail)
	switch {
	case ok && o.ReplayedFailed > 0:
		return "", fmt.Errorf("%s found the key FAILED still, and did nothing: there is a later dead letter of it to redrive, "+
			"or the record has no usable key still: then fix that, and redrive it to its topic (--brokers without --function-name)", f)
	case ok && o.DeadLettered > 0:
		return f.String() + ": failed again, see its new dead letter", nil
	case ok && o.Replayed > 0:
		return f.String() + ": had been done already", nil
	case ok && o.Executed > 0:
		return f.String() + ": executed", nil
	case ok && o.Unprotected+o.FailedOpen > 0:
		return f.String() + ": executed, without protection", nil
	case !strings.Contains(l.IdempotencyKey, "#"):
		return "", fmt.Errorf("%s reports the record as settled, but its log does not show whether it was executed; "+
			"as the record had no usable key, or a hashed one, that can't be told: redrive it to its topic (--brokers without --function-name)", f)
	}
	return f.String(), nil
}

// outcomes finds the metrics in the end of a log, which the answer carries.
func outcomes(logTail string) (metrics.Outcomes, bool) {
	text, err := base64.StdEncoding.DecodeString(logTail)
	if err != nil {
		return metrics.Outcomes{}, false
	}
	for line := range bytes.Lines(text) {
		if o, ok := metrics.Parse(line); ok && o.BatchSize == 1 {
			return o, true
		}
	}
	return metrics.Outcomes{}, false
}

func (f *function) explain(err error) error {
	var missing *types.ResourceNotFoundException
	hint := ""
	if errors.As(err, &missing) {
		hint = " (there is no such function in this account and region: check --function-name and --region)"
	}
	return fmt.Errorf("invoking %s: %w%s", f, err, hint)
}

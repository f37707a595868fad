// Package layercall is what idemsk and a function in another language tell each other: the event of a call,
// which names the attempt of each record, and the answer, which names the records that failed
// (docs/layer.md). A Runtime brings a call to the function.
//
// In a Lambda function, the layer divides the event of an invocation into calls: Build and NewContext.
// Package layerproxy is its Runtime. In a consumer process there is no event, and a Caller makes one of the
// records of a call. The program idemsk-consumer has its Runtimes: a web service, and child processes.
package layercall

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
	"github.com/idemsk/idemsk/lambda/sqs"
)

// The headers that are added to each record that the function gets. A header of the record itself that has
// such a name is removed: a function that takes the first one would fence with the token of a producer.
const (
	headerToken   = "idemsk-token"   //nolint:gosec // no credential: the fencing token
	headerAttempt = "idemsk-attempt" // the number of the attempt, from 1
)

// isOurs reports whether a header has one of these names, in any case of letters.
func isOurs(name string) bool {
	return strings.EqualFold(name, headerToken) || strings.EqualFold(name, headerAttempt)
}

// Runtime calls the function with an event, and returns its answer. The calls of an invocation follow one
// another; a Caller makes up to Calls at once. An error means that the call failed as a whole: a
// FunctionError, or what prevented the call. If the function did not get the event, the error is marked by
// idem.Unavailable, so that no attempt is counted.
type Runtime func(ctx context.Context, event []byte) (answer []byte, err error)

// Build is the app.Build of the layer: its handler calls the Runtime of NewContext, with one record, or with up to
// IDEMSK_CALL_RECORDS. It handles no event in another context.
func Build(ctx context.Context, base *app.Base) (msk.Handler, error) {
	base.Vars.WarnUnused(ctx, base.Logger, "the layer does not use it: the function's runtime takes one call at a time",
		"IDEMSK_CONCURRENCY")
	converted := base.Config.Schemas.Converts()
	call := func(ctx context.Context, rs []kafka.RecordAttempt) ([]idem.BulkResult, error) {
		inv, _ := ctx.Value(invocationKey{}).(*invocation)
		return inv.call(ctx, rs, converted)
	}
	return Handler(base, 1, func(ctx context.Context, r kafka.Record) ([]byte, error) {
		return one(ctx, r, func(rs []kafka.RecordAttempt) ([]idem.BulkResult, error) { return call(ctx, rs) })
	}, call), nil
}

// Handler returns each or many, as IDEMSK_CALL_RECORDS says: each, the default, takes one record in a call. The
// processor makes a number of calls at once.
func Handler(base *app.Base, calls int, each kafka.HandlerFunc, many kafka.BulkAttempts) kafka.Handler {
	records := &base.Config.Records
	if records.CallRecords = base.CallRecords(1); records.CallRecords == 1 {
		records.Concurrency = calls
		return each
	}
	records.Calls = calls
	return many
}

// NewContext returns the context in which the event of an invocation is handled, of Kafka or SQS. The error
// says why the event can't be divided into calls.
func NewContext(ctx context.Context, event []byte, runtime Runtime) (context.Context, error) {
	inv := &invocation{runtime: runtime}
	var err error
	if sqs.IsEvent(event) {
		inv.source, err = readMessages(event)
	} else {
		inv.source, err = readRecords(event)
	}
	if err != nil {
		return nil, err
	}
	return context.WithValue(ctx, invocationKey{}, inv), nil
}

type invocationKey struct{}

// invocation is an invocation with an event. The function is called for each record, or for several together.
type invocation struct {
	runtime Runtime
	source
}

// source is the event of an invocation in the form of its event source.
type source interface {
	// event returns the event of a call with some of the records. Each has its attempt in its headers.
	// Converted records have another key or value than the event of the invocation.
	event(rs []kafka.RecordAttempt, converted bool) ([]byte, error)
	// results returns what the answer of a call says of each of its records.
	results(rs []kafka.RecordAttempt, answer []byte) ([]idem.BulkResult, error)
}

// call calls the function with some of the records, and returns a result for each.
func (inv *invocation) call(ctx context.Context, rs []kafka.RecordAttempt, converted bool) ([]idem.BulkResult,
	error) {
	event, err := inv.event(rs, converted)
	if err != nil {
		return nil, err
	}
	answer, err := inv.runtime(ctx, event)
	if err != nil {
		return nil, err
	}
	return inv.results(rs, answer)
}

// records is the event of a Kafka event source.
type records struct {
	kafka   *mskevent.Event
	records map[mskevent.Place]*mskevent.Record
}

func readRecords(event []byte) (*records, error) {
	parsed, err := mskevent.Parse("the event", event)
	if err != nil {
		return nil, err
	}
	all := &records{kafka: parsed, records: make(map[mskevent.Place]*mskevent.Record, len(parsed.Records))}
	for i := range parsed.Records {
		r := &parsed.Records[i]
		if all.records[r.Place()] != nil {
			return nil, fmt.Errorf("the event has the record %s twice", r.Place())
		}
		all.records[r.Place()] = r
	}
	return all, nil
}

func (all *records) event(rs []kafka.RecordAttempt, converted bool) ([]byte, error) {
	part := make([]mskevent.Record, len(rs))
	for i := range rs {
		part[i] = *all.records[placeOf(rs[i].Record)]
		if converted {
			m := messageOf(rs[i].Record)
			json, err := part[i].WithDataOf(&m)
			if err != nil {
				return nil, fmt.Errorf("converting %s: %w", rs[i].Record.Source(), err)
			}
			part[i].JSON = json
		}
		json, err := part[i].WithHeaders(isOurs, headersOf(rs[i].Attempt)...)
		if err != nil {
			return nil, fmt.Errorf("adding headers to %s: %w", rs[i].Record.Source(), err)
		}
		part[i].JSON = json
	}
	return all.kafka.Envelope.Event(len(part), func(i int) *mskevent.Record { return &part[i] }), nil
}

func (*records) results(rs []kafka.RecordAttempt, answer []byte) ([]idem.BulkResult, error) {
	return results(rs, answer)
}

// headersOf returns the headers of an attempt. A record that is handled without protection has none.
func headersOf(a idem.Attempt) []mskevent.Header {
	if a.Number == 0 {
		return nil
	}
	return []mskevent.Header{
		{Key: headerToken, Value: strconv.AppendInt(nil, a.Token, 10)},
		{Key: headerAttempt, Value: strconv.AppendInt(nil, int64(a.Number), 10)},
	}
}

func placeOf(r *kafka.Record) mskevent.Place {
	return mskevent.Place{Partition: r.Topic + "-" + strconv.Itoa(int(r.Partition)), Offset: r.Offset}
}

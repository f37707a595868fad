package proxy

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strconv"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/batch"
	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/app"
	"github.com/idemsk/idemsk/lambda/msk"
)

// The headers that the layer adds to each record that it gives to the function.
const (
	headerToken   = "idemsk-token"   //nolint:gosec // no credential: the fencing token
	headerAttempt = "idemsk-attempt" // the number of the attempt, from 1
)

// callSeparator is between the ID of an invocation and the number of a further call, in the request ID of that call. Each call has its
// own ID, so that a late answer to one is not taken for the answer to the next.
const callSeparator = "-"

// invocation is an invocation with a Kafka event. The function is called several times if the
// event has more records than the commit window, or if keys are in flight elsewhere or their owners died.
type invocation struct {
	api     *api
	event   *event
	gone    <-chan struct{} // closed when the runtime has ended
	kafka   *mskevent.Event
	records map[mskevent.Place]*mskevent.Record
	calls   int
}

func newInvocation(api *api, e *event, gone <-chan struct{}) (*invocation, error) {
	parsed, err := mskevent.Parse("the event", e.payload)
	if err != nil {
		return nil, err
	}
	inv := &invocation{api: api, event: e, gone: gone, kafka: parsed, records: make(map[mskevent.Place]*mskevent.Record, len(parsed.Records))}
	for i := range parsed.Records {
		r := &parsed.Records[i]
		if inv.records[r.Place()] != nil {
			return nil, fmt.Errorf("the event has the record %s twice", r.Place())
		}
		inv.records[r.Place()] = r
	}
	return inv, nil
}

type invocationKey struct{}

func withInvocation(ctx context.Context, inv *invocation) context.Context {
	return context.WithValue(ctx, invocationKey{}, inv)
}

// bulk is the build of a function that calls the runtime with many records at a time.
func bulk(_ context.Context, base *app.Base) (msk.Handler, error) {
	base.Config.Records.BulkAttempts = func(ctx context.Context, rs []kafka.RecordAttempt) ([]batch.Result, error) {
		inv, _ := ctx.Value(invocationKey{}).(*invocation)
		return inv.call(ctx, rs)
	}
	return nil, nil //nolint:nilnil // the handler is in the configuration
}

// call calls the function with some of the records, and returns a result for each.
func (inv *invocation) call(ctx context.Context, rs []kafka.RecordAttempt) ([]batch.Result, error) {
	c, err := inv.newCall(ctx, rs)
	if err != nil {
		return nil, err
	}
	reply, err := inv.api.call(ctx, inv.gone, c)
	if err != nil {
		return nil, idem.Unavailable(err)
	}
	inv.calls++
	return results(rs, reply)
}

// newCall returns the call of the function with records. Its deadline leaves the time for the settlements.
func (inv *invocation) newCall(ctx context.Context, rs []kafka.RecordAttempt) (*call, error) {
	records := make([]mskevent.Record, len(rs))
	for i := range rs {
		records[i] = *inv.records[placeOf(rs[i].Record)]
		if rs[i].Attempt.Number == 0 {
			continue
		}
		json, err := records[i].WithHeaders(
			mskevent.Header{Key: headerToken, Value: strconv.AppendInt(nil, rs[i].Attempt.Token, 10)},
			mskevent.Header{Key: headerAttempt, Value: strconv.AppendInt(nil, int64(rs[i].Attempt.Number), 10)},
		)
		if err != nil {
			return nil, fmt.Errorf("adding headers to %s: %w", rs[i].Record.Source(), err)
		}
		records[i].JSON = json
	}
	header := maps.Clone(inv.event.header)
	if inv.calls > 0 {
		header.Set(headerRequestID, inv.event.id()+callSeparator+strconv.Itoa(inv.calls+1))
	}
	if deadline, ok := ctx.Deadline(); ok {
		header.Set(headerDeadline, strconv.FormatInt(deadline.UnixMilli(), 10))
	}
	payload := inv.kafka.Envelope.Event(len(records), func(i int) *mskevent.Record { return &records[i] })
	return &call{event: event{status: http.StatusOK, header: header, payload: payload}, answer: make(chan answer, 1)}, nil
}

func placeOf(r *kafka.Record) mskevent.Place {
	return mskevent.Place{Partition: r.Topic + "-" + strconv.Itoa(int(r.Partition)), Offset: r.Offset}
}

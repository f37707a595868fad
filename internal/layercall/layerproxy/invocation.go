package layerproxy

import (
	"context"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/idemsk/idemsk/idem"
)

// callSeparator is between the ID of an invocation and the number of a further call, in the request ID of
// that call. Each call has its own ID, so that a late answer to one is not taken for the answer to the next.
const callSeparator = "-"

// isCallOf reports whether a request ID is that of an invocation or of one of its further calls.
func isCallOf(id, invocation string) bool {
	rest, found := strings.CutPrefix(id, invocation)
	return found && (rest == "" || strings.HasPrefix(rest, callSeparator))
}

// invocation is an invocation with an event of Kafka or SQS, and calls the function's runtime for it.
type invocation struct {
	api   *api
	event *event
	gone  <-chan struct{} // closed when the runtime has ended
	calls int
}

// call is the layercall.Runtime of the invocation. The deadline of a call leaves the time for the
// settlements.
func (inv *invocation) call(ctx context.Context, payload []byte) ([]byte, error) {
	header := maps.Clone(inv.event.header)
	if inv.calls > 0 {
		header.Set(headerRequestID, inv.event.id()+callSeparator+strconv.Itoa(inv.calls+1))
	}
	if deadline, ok := ctx.Deadline(); ok {
		header.Set(headerDeadline, strconv.FormatInt(deadline.UnixMilli(), 10))
	}
	c := &call{event: event{status: http.StatusOK, header: header, payload: payload},
		answer: make(chan answer, 1)}
	got, err := inv.api.call(ctx, inv.gone, c)
	if err != nil {
		return nil, idem.Unavailable(err)
	}
	inv.calls++
	return got.payload, got.err
}

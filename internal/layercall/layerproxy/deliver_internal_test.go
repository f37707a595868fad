package layerproxy

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/idemsk/idemsk/idem"
)

// A call whose event the runtime did not get is not one of unknown outcome, and the runtime can get the next one.
func TestCallIsUnavailableIfTheRuntimeHangsUp(t *testing.T) {
	t.Parallel()
	ctx, hangUp := context.WithCancel(t.Context())
	hangUp()
	a := &api{most: 1, open: make(map[string]*call), passed: make(map[string]*call)}
	c := &call{event: event{status: http.StatusOK, header: http.Header{headerRequestID: {"1"}}, payload: []byte("{}")},
		answer: make(chan answer, 1)}
	a.hand(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, pathNext, http.NoBody), c)
	select {
	case got := <-c.answer:
		if !idem.IsUnavailable(got.err) || idem.IsOutcomeUnknown(got.err) || a.busy() {
			t.Errorf("error %v, busy: %v", got.err, a.busy())
		}
	default:
		t.Error("the call has no answer")
	}
}

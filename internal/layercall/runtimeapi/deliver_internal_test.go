package runtimeapi

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

// brokenConnection is a ResponseWriter whose connection fails at a write, or at the end of a short event, which
// stays in a buffer until then.
type brokenConnection struct {
	*httptest.ResponseRecorder
	write, flush error
}

func (b *brokenConnection) Write(p []byte) (int, error) {
	if b.write != nil {
		return 0, b.write
	}
	return b.ResponseRecorder.Write(p)
}

func (b *brokenConnection) FlushError() error { return b.flush }

// An invocation is lost, and another one can be given out, if the process has gone before it got the event.
func TestInvocationIsLostWithItsConnection(t *testing.T) {
	t.Parallel()
	ended, end := context.WithCancel(t.Context())
	end()
	broken := errors.New("broken pipe")
	for name, c := range map[string]struct {
		ctx          context.Context
		write, flush error
		lost         bool
	}{
		"closed before the event":    {ctx: ended, lost: true},
		"closed within the event":    {ctx: t.Context(), write: broken, lost: true},
		"closed with a short event":  {ctx: t.Context(), flush: broken, lost: true},
		"open, whatever comes after": {ctx: t.Context()},
	} {
		a := &api{cfg: &Config{Concurrency: 1}, open: make(map[string]*invocation)}
		inv := newInvocation([]byte("event"))
		w := &brokenConnection{httptest.NewRecorder(), c.write, c.flush}
		a.hand(w, httptest.NewRequestWithContext(c.ctx, http.MethodGet, "/", http.NoBody), inv)
		select {
		case got := <-inv.answer:
			if !c.lost || !got.lost || len(a.open) > 0 {
				t.Errorf("%s: answer %+v, %d are open", name, got, len(a.open))
			}
		default:
			if c.lost || a.open[inv.id] != inv || !bytes.Equal(w.Body.Bytes(), inv.payload) {
				t.Errorf("%s: no answer, sent %q", name, w.Body)
			}
		}
	}
}

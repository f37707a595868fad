package layerproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/layercall"
	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
)

const (
	// maxHeader bounds the headers of a request: an error may have an X-Ray cause of 1 MiB in one.
	maxHeader = 2 << 20
	// drainTime bounds the wait for the last requests of a runtime that has ended.
	drainTime = 200 * time.Millisecond
)

// api is the Runtime API that the function's runtime uses. It serves the calls of an event of Kafka or SQS
// itself. Other requests pass through.
type api struct {
	upstream *upstream
	listener net.Listener
	server   *http.Server
	most     int // calls that the runtime may have at once

	asked chan ask   // unbuffered: a receive succeeds while the runtime asks for work
	work  chan *call // unbuffered: a send succeeds while the runtime asks for work

	mu     sync.Mutex          // guards the fields below
	open   map[string]*call    // by ID: with the runtime, unanswered
	failed map[*call]error     // reported since the runtime asked for work
	passed map[string]*call    // as open, of events that pass through
	kept   map[string]struct{} // the IDs of invocations that have calls, of which no request may pass
}

// ask is a request of the runtime for work. It lets one invocation be taken from Lambda at a time, so that
// Lambda gives no more invocations than the runtime has workers to handle.
type ask struct {
	header http.Header
	done   chan struct{} // closed when the invocation has been handled
}

// call is an event for the runtime.
type call struct {
	event
	answer chan answer   // gets one; nil for an event that passes through
	done   chan struct{} // closed when the answer has passed through; nil for one that does not
}

// answer is the runtime's answer to a call.
type answer struct {
	payload []byte
	err     error // the call failed as a whole
	// The runtime has reported err. If the runtime ends before it asks for work, err may be that of another part of
	// the function, while the handler was waiting for its effect.
	reported bool
}

func serve(up *upstream, invocations int) (*api, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not wait
	if err != nil {
		return nil, fmt.Errorf("serving the Runtime API to the function's runtime: %w", err)
	}
	a := &api{upstream: up, listener: listener, most: invocations, asked: make(chan ask),
		work: make(chan *call), open: make(map[string]*call), failed: make(map[*call]error), passed: make(map[string]*call),
		kept: make(map[string]struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathNext, a.next)
	mux.HandleFunc("POST "+pathInvocation+"{id}/response",
		func(w http.ResponseWriter, r *http.Request) { a.take(w, r, false) })
	mux.HandleFunc("POST "+pathInvocation+"{id}/error",
		func(w http.ResponseWriter, r *http.Request) { a.take(w, r, true) })
	mux.Handle("/", up.proxy)
	up.proxy.ModifyResponse = func(r *http.Response) error { // before the runtime gets it, and asks for work
		id, _, _ := strings.Cut(strings.TrimPrefix(r.Request.URL.Path, pathInvocation), "/")
		a.hasPassed(id)
		return nil
	}
	a.server = &http.Server{ //nolint:gosec // the runtime may take its time, and asks for work for as long as there is none
		Handler: mux, MaxHeaderBytes: maxHeader, ErrorLog: log.New(io.Discard, "", 0),
	}
	go func() { _ = a.server.Serve(listener) }() // ends with drain, or with the process
	return a, nil
}

func (a *api) address() string { return a.listener.Addr().String() }

// drain waits for the last requests of a runtime that has ended: what it sent before counts. The calls that it has not
// answered have failed then, unless a process of the runtime still lives.
func (a *api) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	lives := a.server.Shutdown(ctx) != nil
	a.mu.Lock()
	defer a.mu.Unlock()
	for c, err := range a.failed {
		c.answer <- answer{err: idem.OutcomeUnknown(fmt.Errorf("%w (the function's process ended)", err))}
	}
	clear(a.failed)
	if lives {
		return
	}
	for _, c := range a.open {
		c.answer <- answer{err: idem.OutcomeUnknown(errors.New("the function's process ended in the call"))}
	}
	clear(a.open)
}

// settleFailed closes the calls that have failed: the runtime has asked for work.
func (a *api) settleFailed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for c, err := range a.failed {
		c.answer <- answer{err: err}
	}
	clear(a.failed)
}

// next waits for work for as long as the runtime does.
func (a *api) next(w http.ResponseWriter, r *http.Request) {
	a.settleFailed()
	if a.busy() {
		refuse(w, http.StatusForbidden, "InvalidStateTransition",
			"answer the invocation before you ask for the next")
		return
	}
	asked, mine := a.asked, ask{r.Header, make(chan struct{})}
	for {
		select {
		case asked <- mine:
			asked = nil
		case <-mine.done: // without work for this request
			asked, mine.done = a.asked, make(chan struct{})
		case c := <-a.work:
			a.hand(w, r, c)
			return
		case <-r.Context().Done():
			return
		}
	}
}

func (a *api) hand(w http.ResponseWriter, r *http.Request, c *call) {
	a.mu.Lock()
	if c.answer != nil {
		a.open[c.id()] = c
	} else if c.status == http.StatusOK {
		a.passed[c.id()] = c
	}
	a.mu.Unlock()
	maps.Copy(w.Header(), c.header)
	if !runtimeapi.Deliver(w, r, c.status, c.payload) && c.answer != nil {
		a.settle(c, answer{err: idem.Unavailable(errLost)})
	}
}

// pass gives the runtime an event as it is, and waits until the answer has passed through as well, the
// runtime has gone, or the invocation has timed out.
func (a *api) pass(ctx context.Context, gone <-chan struct{}, e *event) {
	c := &call{event: *e, done: make(chan struct{})}
	select {
	case a.work <- c:
	case <-ctx.Done():
		return
	}
	deadline, err := e.deadline()
	if err != nil {
		return // no invocation: it has no answer
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-c.done:
	case <-gone:
	case <-timer.C:
		a.hasPassed(e.id())
	}
}

// hasPassed notes that an event that passes through has its answer.
func (a *api) hasPassed(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.passed[id]; c != nil {
		close(c.done)
		delete(a.passed, id)
	}
}

// errNotTaken means that the runtime did not ask for the next invocation in time.
var errNotTaken = errors.New("the function's runtime did not ask for the next invocation")

// errLost means that the runtime closed its connection, or ended, before it had the event.
var errLost = errors.New("the function's runtime closed the connection to the Runtime API before it had the event")

// call gives the runtime an event and returns its answer. It returns errNotTaken if ctx ends or the runtime
// has gone before the runtime takes the event. When the runtime has taken it, call waits for the answer
// without limit.
func (a *api) call(ctx context.Context, gone <-chan struct{}, c *call) (answer, error) {
	select {
	case a.work <- c:
		return <-c.answer, nil
	case <-ctx.Done():
	case <-gone:
	}
	return answer{}, errNotTaken
}

// keep marks an invocation that has calls: requests with its ID, or with those of its calls, do not pass
// through.
func (a *api) keep(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kept[id] = struct{}{}
}

// forget ends what keep began, when the invocation has its answer.
func (a *api) forget(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.kept, id)
	maps.DeleteFunc(a.open, func(call string, _ *call) bool { return isCallOf(call, id) })
}

// busy reports whether the runtime has as many events to answer as it may have.
func (a *api) busy() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.open)+len(a.passed) >= a.most
}

// unanswered returns the number of calls that the runtime has not answered.
func (a *api) unanswered() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.open) + len(a.failed)
}

// settle closes a call with its answer, unless it has one. An error that the runtime has reported becomes the answer
// when the runtime asks for work.
func (a *api) settle(c *call, with answer) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open[c.id()] != c {
		return false
	}
	delete(a.open, c.id())
	if with.reported {
		a.failed[c] = with.err
	} else {
		c.answer <- with
	}
	return true
}

// find returns the open call of an ID, or passes if the ID is of no invocation with calls.
func (a *api) find(id string) (c *call, passes bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.open[id]; c != nil {
		return c, false
	}
	for invocation := range a.kept {
		if isCallOf(id, invocation) {
			return nil, false
		}
	}
	return nil, true
}

// take takes the answer to a call. One that does not arrive whole is not taken, so that a runtime that ends
// in the middle of it has not answered.
func (a *api) take(w http.ResponseWriter, r *http.Request, failed bool) {
	c, passes := a.find(r.PathValue("id"))
	if passes {
		a.upstream.proxy.ServeHTTP(w, r)
		return
	}
	if c == nil {
		refuse(w, http.StatusBadRequest, "InvalidRequestID", "Invalid request ID")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, runtimeapi.MaxResponse))
	kind := r.Header.Get(headerErrorType)
	if streamed := r.Trailer.Get(headerErrorType); streamed != "" {
		failed, kind, body = true, streamed, runtimeapi.StreamedError(r.Trailer)
	}
	got := answer{payload: body}
	if failed {
		got = answer{err: layercall.FunctionError(kind, body), reported: true}
	}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		a.settle(c, answer{err: idem.OutcomeUnknown(
			fmt.Errorf("the function's answer exceeds %d bytes", runtimeapi.MaxResponse))})
		refuse(w, http.StatusRequestEntityTooLarge, "RequestEntityTooLarge",
			fmt.Sprintf("Exceeded maximum allowed payload size (%d bytes).", runtimeapi.MaxResponse))
	case err != nil:
		refuse(w, http.StatusBadRequest, "TruncatedHTTPRequest",
			"HTTP request detected as truncated: "+err.Error())
	case !a.settle(c, got):
		refuse(w, http.StatusBadRequest, "InvalidRequestID", "Invalid request ID")
	default:
		reply(w, http.StatusAccepted, map[string]string{"status": "OK"})
	}
}

func refuse(w http.ResponseWriter, status int, kind, message string) {
	reply(w, status, map[string]string{"errorMessage": message, "errorType": kind})
}

func reply(w http.ResponseWriter, status int, body map[string]string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the runtime has gone if it fails
}

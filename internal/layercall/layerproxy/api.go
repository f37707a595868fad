package layerproxy

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"strconv"
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

	// unbuffered: a receive succeeds while the runtime asks for work; has the header of its request
	asked chan http.Header
	work  chan *call // unbuffered: a send succeeds while the runtime asks for work

	mu   sync.Mutex
	open *call  // with the runtime, unanswered; guarded by mu
	last string // the ID of the last invocation that has calls, of which no request may pass; guarded by mu
}

// call is an event for the runtime.
type call struct {
	event
	answer chan answer // gets one; nil for an event that passes through
}

// answer is the runtime's answer to a call.
type answer struct {
	payload []byte
	err     error // the call failed as a whole
}

func serve(up *upstream) (*api, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not wait
	if err != nil {
		return nil, fmt.Errorf("serving the Runtime API to the function's runtime: %w", err)
	}
	a := &api{upstream: up, listener: listener, asked: make(chan http.Header), work: make(chan *call)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathNext, a.next)
	mux.HandleFunc("POST "+pathInvocation+"{id}/response",
		func(w http.ResponseWriter, r *http.Request) { a.take(w, r, false) })
	mux.HandleFunc("POST "+pathInvocation+"{id}/error",
		func(w http.ResponseWriter, r *http.Request) { a.take(w, r, true) })
	mux.Handle("/", up.proxy)
	a.server = &http.Server{ //nolint:gosec // the runtime may take its time, and asks for work for as long as there is none
		Handler: mux, MaxHeaderBytes: maxHeader, ErrorLog: log.New(io.Discard, "", 0),
	}
	go func() { _ = a.server.Serve(listener) }() // ends with drain, or with the process
	return a, nil
}

func (a *api) address() string { return a.listener.Addr().String() }

// drain waits for the last requests of a runtime that has ended: what it sent before counts.
func (a *api) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	_ = a.server.Shutdown(ctx) // an error means that a process of the runtime still lives
}

// next waits for work for as long as the runtime does.
func (a *api) next(w http.ResponseWriter, r *http.Request) {
	if a.isOpen() {
		refuse(w, http.StatusForbidden, "InvalidStateTransition",
			"answer the invocation before you ask for the next")
		return
	}
	for {
		select {
		case a.asked <- r.Header:
		case c := <-a.work:
			a.hand(w, c)
			return
		case <-r.Context().Done():
			return
		}
	}
}

func (a *api) hand(w http.ResponseWriter, c *call) {
	if c.answer != nil {
		a.mu.Lock()
		a.open = c
		a.mu.Unlock()
	}
	maps.Copy(w.Header(), c.header)
	w.Header().Set("Content-Length", strconv.Itoa(len(c.payload)))
	w.WriteHeader(c.status)
	_, _ = w.Write(c.payload) // a runtime that does not read it will not answer it
}

// pass gives the runtime an event as it is. The answer passes through as well.
func (a *api) pass(ctx context.Context, e *event) {
	select {
	case a.work <- &call{event: *e}:
	case <-ctx.Done():
	}
}

// errNotTaken means that the runtime did not ask for the next invocation in time.
var errNotTaken = errors.New("the function's runtime did not ask for the next invocation")

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
	a.last = id
}

func (a *api) isOpen() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.open != nil
}

// settle closes a call with its answer, unless it has one.
func (a *api) settle(c *call, with answer) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open != c {
		return false
	}
	a.open = nil
	c.answer <- with
	return true
}

// find returns the open call of an ID, or passes if the ID is of no invocation with calls.
func (a *api) find(id string) (c *call, passes bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open != nil && a.open.id() == id {
		return a.open, false
	}
	return nil, a.last == "" || id != a.last && !strings.HasPrefix(id, a.last+callSeparator)
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
	if r.Trailer.Get(headerErrorType) != "" {
		failed, body = true, streamedError(r.Trailer.Get(trailerErrorBody))
	}
	got := answer{payload: body}
	if failed {
		got = answer{err: layercall.FunctionError(body)}
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

// streamedError returns the error in the trailers of a streamed answer, which takes the place of the answer.
func streamedError(encoded string) []byte {
	body, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return []byte(encoded)
	}
	return body
}

func refuse(w http.ResponseWriter, status int, kind, message string) {
	reply(w, status, map[string]string{"errorMessage": message, "errorType": kind})
}

func reply(w http.ResponseWriter, status int, body map[string]string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the runtime has gone if it fails
}

package runtimeapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/idemsk/idemsk/internal/uuid"
)

const (
	headerRequestID    = "Lambda-Runtime-Aws-Request-Id"
	headerDeadline     = "Lambda-Runtime-Deadline-Ms"
	headerFunctionARN  = "Lambda-Runtime-Invoked-Function-Arn"
	headerTraceID      = "Lambda-Runtime-Trace-Id"
	headerErrorType    = "Lambda-Runtime-Function-Error-Type" // a trailer too
	trailerErrorBody   = "Lambda-Runtime-Function-Error-Body"
	headerResponseMode = "Lambda-Runtime-Function-Response-Mode"

	// A header of an error may have its X-Ray cause, of up to 1 MiB.
	maxHeaderBytes = 2 << 20
)

// invocation is an event for a process to handle.
type invocation struct {
	id, trace string
	payload   []byte
	written   chan struct{} // closed when the payload is no longer looked at
	answer    chan answer   // gets one
	abandoned bool          // its answer is refused; guarded by api.mu
}

type answer struct {
	payload []byte
	err     *FunctionError // instead of the payload
	lost    bool           // instead of both: the process has not got the event
}

func newInvocation(payload []byte) *invocation {
	return &invocation{
		id:      uuid.New(),
		trace:   newTraceID(),
		payload: payload,
		written: make(chan struct{}),
		answer:  make(chan answer, 1),
	}
}

// api is the Runtime API of one process.
type api struct {
	cfg      *Config
	listener net.Listener
	server   *http.Server
	served   chan struct{} // closed when the server has ended

	mux      *http.ServeMux
	handlers sync.WaitGroup // the requests that are being served
	// unbuffered: a send succeeds when the process is asking for work, and not before
	work      chan *invocation
	asked     chan struct{}       // closed when it asks for the first time
	initError chan *FunctionError // gets at most one
	started   chan struct{}       // closed when group is set
	group     int                 // of the processes that may use the API; 0 if none was started

	mu      sync.Mutex
	closed  bool
	ready   bool                           // asked is closed
	failed  bool                           // initError has been sent
	open    map[string]*invocation         // by ID: with the process, unanswered
	errors  map[*invocation]*FunctionError // reported since the process asked for work
	refused string                         // the last request that was refused since the last invocation began
}

func newAPI(ctx context.Context, cfg *Config) (*api, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	a := &api{
		cfg:       cfg,
		listener:  listener,
		served:    make(chan struct{}),
		work:      make(chan *invocation),
		mux:       http.NewServeMux(),
		asked:     make(chan struct{}),
		open:      make(map[string]*invocation),
		errors:    make(map[*invocation]*FunctionError),
		initError: make(chan *FunctionError, 1),
		started:   make(chan struct{}),
	}
	a.mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", a.next)
	a.mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/response", a.response)
	a.mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/error", a.failure)
	a.mux.HandleFunc("POST /2018-06-01/runtime/init/error", a.initFailure)
	a.mux.HandleFunc("/", a.unknown)
	a.server = &http.Server{
		Handler:        a,
		MaxHeaderBytes: maxHeaderBytes,
		// of a request that has begun; the process may stay idle for as long as it likes
		ReadHeaderTimeout: maxTimeout,
		ErrorLog:          log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, peerKey{}, sync.OnceValue(func() error { return a.checkPeer(c) }))
		},
	}
	go func() {
		defer close(a.served)
		_ = a.server.Serve(listener) // always an error: ErrServerClosed
	}()
	return a, nil
}

func (a *api) address() string { return a.listener.Addr().String() }

// close ends the server, and waits for the current requests, which end with their connections. After it no
// request takes work or reads a payload.
func (a *api) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	_ = a.server.Close()
	<-a.served
	a.handlers.Wait()
}

// ServeHTTP serves the requests of the function's processes, and refuses all others.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !a.enter() {
		return
	}
	defer a.handlers.Done()
	if check, ok := r.Context().Value(peerKey{}).(func() error); ok {
		if err := check(); err != nil {
			a.refuseAs("a request", w, http.StatusForbidden, "Forbidden", err.Error())
			return
		}
	}
	a.mux.ServeHTTP(w, r)
}

// peerKey is the key of a connection's check, which its first request makes.
type peerKey struct{}

// start sets the group of the processes that may use the API.
func (a *api) start(group int) {
	a.group = group
	close(a.started)
}

func (a *api) checkPeer(c net.Conn) error {
	<-a.started // the process may be faster than the thread that started it
	return checkPeer(a.group, c)
}

func (a *api) enter() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	a.handlers.Add(1)
	return true
}

// next waits for an invocation until the process disconnects.
func (a *api) next(w http.ResponseWriter, r *http.Request) {
	if id, busy := a.ask(); busy {
		a.refuse(w, r, http.StatusForbidden, "InvalidStateTransition",
			"answer request "+id+" before you ask for the next")
		return
	}
	select {
	case inv := <-a.work:
		a.hand(w, r, inv)
	case <-r.Context().Done():
	}
}

// ask records that the process asks for work. The invocations whose errors it has reported are over. It returns
// the ID of an invocation that the process has not answered, if it has as many as it may have.
func (a *api) ask() (unanswered string, busy bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for inv, err := range a.errors {
		inv.answer <- answer{err: err}
	}
	clear(a.errors)
	if !a.ready {
		a.ready = true
		close(a.asked)
	}
	if len(a.open) < a.cfg.Concurrency {
		return "", false
	}
	for id := range a.open {
		unanswered = id
	}
	return unanswered, true
}

// hand sends the invocation to the process. The invocation is lost if the process did not get all of it.
func (a *api) hand(w http.ResponseWriter, r *http.Request, inv *invocation) {
	defer close(inv.written)
	a.mu.Lock()
	if a.refused = ""; !inv.abandoned {
		a.open[inv.id] = inv
	}
	a.mu.Unlock()
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set(headerRequestID, inv.id)
	header.Set(headerDeadline, strconv.FormatInt(time.Now().Add(a.cfg.Timeout).UnixMilli(), 10))
	header.Set(headerFunctionARN, a.cfg.ARN)
	header.Set(headerTraceID, inv.trace)
	if !Deliver(w, r, http.StatusOK, inv.payload) {
		a.settle(inv, answer{lost: true})
	}
}

// Deliver answers a request for work with an event, and reports whether the connection took all of it.
// Otherwise the function was not called: its runtime has closed the connection, or has ended. A function
// whose runtime ends after Deliver may have been called.
func Deliver(w http.ResponseWriter, r *http.Request, status int, payload []byte) bool {
	if r.Context().Err() != nil {
		return false
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(payload)))
	w.WriteHeader(status)
	_, err := w.Write(payload)
	return err == nil && http.NewResponseController(w).Flush() == nil // otherwise a short event stays in the buffer
}

// response receives the answer of the function. An incomplete answer is refused, so that the death of a
// process during its answer counts as a crash.
func (a *api) response(w http.ResponseWriter, r *http.Request) {
	inv := a.unanswered(r.PathValue("id"))
	if inv == nil {
		a.refuseID(w, r)
		return
	}
	if mode := r.Header.Get(headerResponseMode); mode != "" && mode != "streaming" {
		a.settle(inv, answer{err: a.rejected(inv.id, "Runtime.InvalidResponseModeHeader",
			fmt.Sprintf("header %s is %q; only streaming is allowed", headerResponseMode, mode))})
		a.refuse(w, r, http.StatusBadRequest, "InvalidFunctionResponseMode", "Invalid function response mode")
		return
	}
	a.take(w, r, inv, func(body []byte) answer {
		if kind := r.Trailer.Get(headerErrorType); kind != "" {
			return answer{err: a.parseError(inv.id, kind, StreamedError(r.Trailer))}
		}
		return answer{payload: body}
	})
}

// failure receives the error of the function.
func (a *api) failure(w http.ResponseWriter, r *http.Request) {
	inv := a.unanswered(r.PathValue("id"))
	if inv == nil {
		a.refuseID(w, r)
		return
	}
	a.take(w, r, inv, func(body []byte) answer {
		return answer{err: a.parseError(inv.id, r.Header.Get(headerErrorType), body)}
	})
}

// take reads the body of an answer and settles the invocation with it.
func (a *api) take(w http.ResponseWriter, r *http.Request, inv *invocation,
	meaning func(body []byte) answer) {
	body, size, err := readBody(r)
	if err != nil {
		a.refuse(w, r, http.StatusBadRequest, "TruncatedHTTPRequest",
			"HTTP request detected as truncated: "+err.Error())
		return
	}
	select {
	case <-inv.written: // the caller may reuse its payload when the invocation is settled
	case <-r.Context().Done():
		return
	}
	if size > MaxResponse {
		a.settle(inv, answer{err: a.rejected(inv.id, "Function.ResponseSizeTooLarge", fmt.Sprintf(
			"Response payload size (%d bytes) exceeded maximum allowed payload size (%d bytes).", size, MaxResponse))})
		a.refuse(w, r, http.StatusRequestEntityTooLarge, "RequestEntityTooLarge",
			fmt.Sprintf("Exceeded maximum allowed payload size (%d bytes).", MaxResponse))
		return
	}
	if !a.settle(inv, meaning(body)) {
		a.refuseID(w, r)
		return
	}
	reply(w, http.StatusAccepted, acceptedBody)
}

// initFailure receives the initialization error of the function.
func (a *api) initFailure(w http.ResponseWriter, r *http.Request) {
	body, _, err := readBody(r)
	if err != nil {
		a.refuse(w, r, http.StatusBadRequest, "TruncatedHTTPRequest",
			"HTTP request detected as truncated: "+err.Error())
		return
	}
	a.mu.Lock()
	late := a.ready || a.failed
	if !late {
		a.failed = true
		a.initError <- a.parseError("", r.Header.Get(headerErrorType), body)
	}
	a.mu.Unlock()
	if late {
		a.refuse(w, r, http.StatusForbidden, "InvalidStateTransition", "the initialization is over")
		return
	}
	reply(w, http.StatusAccepted, acceptedBody)
}

func (a *api) unknown(w http.ResponseWriter, r *http.Request) {
	a.refuse(w, r, http.StatusNotFound, "NotFound", "the Lambda Runtime API 2018-06-01 has no such operation")
}

// unanswered returns the invocation with this ID if it has no answer yet, otherwise nil.
func (a *api) unanswered(id string) *invocation {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.open[id]
}

// settle sets the answer of the invocation, unless it has one. The function's error becomes the answer when the
// process asks for work.
func (a *api) settle(inv *invocation, ans answer) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open[inv.id] != inv {
		return false
	}
	delete(a.open, inv.id)
	if ans.err == nil || ans.err.Rejected {
		inv.answer <- ans
	} else {
		a.errors[inv] = ans.err
	}
	return true
}

// reported returns the error that the process has reported for an invocation, nil if none, without having asked
// for work since.
func (a *api) reported(inv *invocation) *FunctionError {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.errors[inv]
	if err != nil {
		err.Last = true
		delete(a.errors, inv)
	}
	return err
}

// abandon refuses the answer of an invocation from now on.
func (a *api) abandon(inv *invocation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	inv.abandoned = true
	delete(a.open, inv.id)
}

func (a *api) refuseID(w http.ResponseWriter, r *http.Request) {
	a.refuse(w, r, http.StatusBadRequest, "InvalidRequestID", "Invalid request ID")
}

// refuse answers with an error, and keeps the request for later error messages.
func (a *api) refuse(w http.ResponseWriter, r *http.Request, status int, kind, message string) {
	a.refuseAs(r.Method+" "+r.URL.Path, w, status, kind, message)
}

// refuseAs is refuse for a request that error messages do not quote.
func (a *api) refuseAs(request string, w http.ResponseWriter, status int, kind, message string) {
	a.mu.Lock()
	a.refused = fmt.Sprintf("%s: %d %s: %s", request, status, kind, message)
	a.mu.Unlock()
	// strings always marshal
	body, _ := json.Marshal(map[string]string{"errorMessage": message, "errorType": kind})
	reply(w, status, body)
}

func (a *api) lastRefused() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused
}

var acceptedBody = []byte(`{"status":"OK"}`)

func reply(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// readBody reads the body and its trailers. For a body over the limit it only determines the size.
func readBody(r *http.Request) (body []byte, size int64, err error) {
	var buffer bytes.Buffer
	if r.ContentLength > 0 {
		buffer.Grow(int(min(r.ContentLength, MaxResponse)) + bytes.MinRead)
	}
	size, err = buffer.ReadFrom(io.LimitReader(r.Body, MaxResponse+1))
	if err == nil && size > MaxResponse {
		var more int64
		more, err = io.Copy(io.Discard, r.Body)
		size += more
	}
	return buffer.Bytes(), size, err
}

// StreamedError returns the error document in the trailers of a streamed answer, which takes the place of the
// answer.
func StreamedError(trailer http.Header) []byte {
	encoded := trailer.Get(trailerErrorBody)
	body, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return []byte(encoded)
	}
	return body
}

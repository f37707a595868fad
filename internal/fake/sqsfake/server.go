package sqsfake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// account is the AWS account of all queues.
const account = "000000000000"

// maxRequest is larger than any request with a body of maxBody bytes. JSON may escape each of them.
const maxRequest = 7 << 20

// Server is an SQS in memory. Make it with [New]; use it as an [http.Handler] or let it listen with
// [Server.Start]. All methods may be called concurrently.
type Server struct {
	config   Config
	requests atomic.Uint64 // for request ids
	stopped  chan struct{} // closed by Close

	mu     sync.Mutex // guards what is below
	queues map[string]*queue
	addr   string
	server *http.Server
	served chan struct{} // closed when the accepting goroutine has ended
	closed bool
	active sync.WaitGroup // connections, each of which has a goroutine
}

// New returns a server without queues, or an error that names the invalid option.
func New(config Config) (*Server, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	return &Server{config: config, stopped: make(chan struct{}), queues: make(map[string]*queue)}, nil
}

// Start listens on the configured address and serves in the background until Close. It can be called once.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.server != nil {
		return errors.New("sqsfake: Start called twice, or after Close")
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", s.config.Addr)
	if err != nil {
		return fmt.Errorf("sqsfake: listen: %w", err)
	}
	s.addr, s.served = listener.Addr().String(), make(chan struct{})
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, ConnState: s.track}
	go func(server *http.Server) {
		defer close(s.served)
		_ = server.Serve(listener) // ends with Close
	}(s.server)
	return nil
}

func (s *Server) track(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.active.Add(1)
	case http.StateClosed:
		s.active.Done()
	case http.StateActive, http.StateIdle, http.StateHijacked:
	}
}

// URL returns the endpoint for a client's BaseEndpoint; empty before Start.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.addr == "" {
		return ""
	}
	return "http://" + s.addr
}

// Close stops the server. It closes all connections, ends all waits, and returns when all goroutines have
// ended. Further calls have no effect.
func (s *Server) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.stopped)
	}
	server := s.server
	s.mu.Unlock()
	if server == nil {
		return nil
	}
	err := server.Close()
	<-s.served
	// A connection that was accepted during Close is known to the server only now.
	if err = errors.Join(err, server.Close()); err != nil {
		return fmt.Errorf("sqsfake: close: %w", err)
	}
	s.active.Wait()
	return nil
}

// urlOf returns a queue's URL. The caller holds s.mu.
func (s *Server) urlOf(name string) string {
	addr := s.addr
	if addr == "" {
		addr = "sqsfake.invalid"
	}
	return "http://" + addr + "/" + account + "/" + name
}

// ServeHTTP answers one request of SQS's API.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out, err := s.perform(r)
	status := http.StatusOK
	if err != nil {
		var e *apiError
		if !errors.As(err, &e) {
			e = &apiError{code: "InternalFailure", message: err.Error()}
		}
		status = http.StatusBadRequest
		w.Header().Set("X-Amzn-Query-Error", e.legacyCode()+";Sender")
		out = map[string]string{"__type": "com.amazonaws.sqs#" + e.code, "message": e.message}
	}
	w.Header().Set("X-Amzn-Requestid", "sqsfake-"+strconv.FormatUint(s.requests.Add(1), 10))
	body, err := json.Marshal(out)
	if err != nil {
		panic(http.ErrAbortHandler) // strings and numbers encode
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the client went away
}

func (s *Server) perform(r *http.Request) (any, error) {
	name, ok := strings.CutPrefix(r.Header.Get("X-Amz-Target"), "AmazonSQS.")
	if r.Method != http.MethodPost || !ok {
		return nil, unsupported("what is no POST with a header X-Amz-Target: AmazonSQS.<operation>")
	}
	do := operationNamed(name)
	if do == nil {
		return nil, unsupported("the operation %s", name)
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxRequest))
	if err != nil {
		return nil, &apiError{code: "RequestEntityTooLarge",
			message: fmt.Sprintf("sqsfake can't read the request: %v", err)}
	}
	return do(s, r.Context(), body)
}

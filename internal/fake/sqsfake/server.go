package sqsfake

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idemsk/idemsk/internal/fake/localhttp"
)

// account is the AWS account of all queues.
const account = "000000000000"

// maxRequest is larger than any request with a body of maxBody bytes. JSON may escape each of them.
const maxRequest = 7 << 20

// Config configures a Server. The zero value is valid: a free port of 127.0.0.1.
type Config struct {
	// Addr is the loopback address on which Start listens (default: localhttp.FreePort).
	Addr string
	// Now is the clock for visibility timeouts; nil means time.Now.
	Now func() time.Time
	// Removed gets the queue's name and the body of each message that a receiver has deleted; nil: nobody.
	Removed func(queue, body string)
}

// Server is an SQS in memory. Make it with [New]; use it as an [http.Handler] or let it listen with Start. All
// methods may be called concurrently.
type Server struct {
	*localhttp.Server

	now      func() time.Time
	removed  func(queue, body string)
	requests atomic.Uint64 // for request ids

	mu     sync.Mutex // guards queues
	queues map[string]*queue
}

// New returns a server without queues, or an error that names the invalid option.
func New(config Config) (*Server, error) {
	s := &Server{now: config.Now, removed: config.Removed, queues: make(map[string]*queue)}
	if s.now == nil {
		s.now = time.Now
	}
	if s.removed == nil {
		s.removed = func(string, string) {}
	}
	var err error
	if s.Server, err = localhttp.New(config.Addr, s); err != nil {
		return nil, fmt.Errorf("sqsfake: %w", err)
	}
	return s, nil
}

// urlOf returns a queue's URL.
func (s *Server) urlOf(name string) string {
	return "http://" + cmp.Or(s.Addr(), "sqsfake.invalid") + "/" + account + "/" + name
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
	do := operations[name]
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

package dynamofake

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idemsk/idemsk/internal/fake/localhttp"
)

// maxBodyBytes is DynamoDB's limit on a request.
const maxBodyBytes = 16 << 20

// Server is an in-memory DynamoDB. Create it with [New]. It is an [http.Handler]; Start makes it listen. It is
// safe for concurrent use.
type Server struct {
	*localhttp.Server

	config      Config
	expressions expressionCache
	statements  statementCache
	usage       usage
	exchanges   sync.Pool     // of *exchange
	requests    atomic.Uint64 // for request ids

	// guards the data: tables with their items, and tokens; held while Config.Observe is called
	mu     sync.Mutex
	tables map[string]*table
	tokens tokens
}

// exchange holds the buffers of one request, for reuse.
type exchange struct {
	operation string
	client    string
	body      bytes.Buffer
	reply     []byte
}

// New returns a server without tables, or an error that names the invalid option.
func New(config Config) (*Server, error) {
	if config.Latency < 0 {
		return nil, fmt.Errorf("dynamofake: Latency is %v, must be 0 or more", config.Latency)
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	s := &Server{config: config, tables: make(map[string]*table)}
	var err error
	if s.Server, err = localhttp.New(config.Addr, s); err != nil {
		return nil, fmt.Errorf("dynamofake: %w", err)
	}
	return s, nil
}

// request is what an operation reads of a request.
type request struct {
	client string // the access key ID of its signature; "" if it has none
	body   string
}

// operation performs a request and appends its answer to out.
type operation func(s *Server, in request, out []byte) ([]byte, error)

// operations are the operations that are known.
var operations = map[string]operation{
	"PutItem":               writing(verbPut),
	"UpdateItem":            writing(verbUpdate),
	"DeleteItem":            writing(verbDelete),
	"GetItem":               (*Server).getItem,
	"Scan":                  (*Server).scan,
	"TransactWriteItems":    (*Server).transactWriteItems,
	"BatchExecuteStatement": (*Server).batchExecuteStatement,
	"BatchGetItem":          (*Server).batchGetItem,
	"CreateTable":           (*Server).createTableOperation,
	"DescribeTable":         (*Server).describeTable,
	"DeleteTable":           (*Server).deleteTable,
	"ListTables":            (*Server).listTables,
	"UpdateTimeToLive":      (*Server).updateTimeToLive,
	"DescribeTimeToLive":    (*Server).describeTimeToLive,
}

// ServeHTTP answers one request of the DynamoDB API. If no answer is sent (a dropped reply, a disconnected
// client, a closed server), it panics with [http.ErrAbortHandler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x, ok := s.exchanges.Get().(*exchange)
	if !ok {
		x = new(exchange)
	}
	defer s.exchanges.Put(x)
	fault := Fault{}
	err := x.receive(r)
	if err == nil {
		s.usage.count(x.operation)
		if s.config.Fault != nil {
			fault = s.config.Fault(x.operation, x.body.Bytes())
		}
		s.wait(r.Context(), s.config.Latency+fault.Delay)
		if fault.Error != nil {
			err = fault.Error
		} else {
			x.reply, err = s.perform(x)
		}
		s.wait(r.Context(), fault.ReplyDelay)
	}
	if fault.DropReply {
		panic(http.ErrAbortHandler)
	}
	s.answer(w, x, err)
}

// receive reads the operation's name and the body.
func (x *exchange) receive(r *http.Request) error {
	var ok bool
	x.operation, ok = strings.CutPrefix(r.Header.Get("X-Amz-Target"), "DynamoDB_20120810.")
	if r.Method != http.MethodPost || !ok {
		return clientError("UnknownOperationException",
			"dynamofake expects POST with a header X-Amz-Target: DynamoDB_20120810.<operation>")
	}
	x.client = signer(r.Header.Get("Authorization"))
	x.body.Reset()
	n, err := x.body.ReadFrom(io.LimitReader(r.Body, maxBodyBytes+1))
	switch {
	case err != nil:
		panic(http.ErrAbortHandler) // the client went away
	case n > maxBodyBytes:
		e := clientError("RequestEntityTooLargeException",
			"%s: the request is larger than %d bytes", x.operation, maxBodyBytes)
		e.Status = http.StatusRequestEntityTooLarge
		return e
	}
	return nil
}

// wait delays a request. It returns early if the client has disconnected or the server is closed.
func (s *Server) wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		panic(http.ErrAbortHandler)
	case <-s.Stopped():
		panic(http.ErrAbortHandler)
	}
}

func (s *Server) perform(x *exchange) ([]byte, error) {
	do := operations[x.operation]
	if do == nil {
		return nil, clientError("UnknownOperationException", "dynamofake does not support the operation %s",
			x.operation)
	}
	// The copy outlives the buffer: strings of stored items are parts of it.
	return do(s, request{x.client, x.body.String()}, x.reply[:0])
}

// answer sends the reply, or the error if there is one.
func (s *Server) answer(w http.ResponseWriter, x *exchange, err error) {
	status := http.StatusOK
	if err != nil {
		e := (*Error)(nil)
		if !errors.As(err, &e) {
			e = Internal()
			e.Message = err.Error()
		}
		status, x.reply = cmp.Or(e.Status, http.StatusBadRequest), e.append(x.reply[:0])
	}
	header := w.Header()
	header.Set("Content-Type", "application/x-amz-json-1.0")
	header.Set("Content-Length", strconv.Itoa(len(x.reply)))
	header.Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(x.reply)), 10))
	header.Set("X-Amzn-Requestid", fmt.Sprintf("dynamofake-%d", s.requests.Add(1)))
	w.WriteHeader(status)
	_, _ = w.Write(x.reply) // an error means that the client went away
}

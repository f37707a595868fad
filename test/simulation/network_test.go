package simulation_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/idemsk/idemsk/idem/dynamostore"
)

// link is the network between one process and its services, without sockets. It implements aws.HTTPClient. A
// fault of a request depends on its name: the process, the operation, the payments in it, and how often the
// process has sent the same.
type link struct {
	*world
	process *process

	mu     sync.Mutex
	same   map[string]int
	heldTo time.Time // requests and replies wait until then
	failed time.Time // when the last request had a fault or was held
}

var (
	errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	errReset   = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	errSilent  = &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
	errEnded   = errors.New("the process has ended")
)

func newLink(w *world, p *process) *link {
	return &link{world: w, process: p, same: make(map[string]int)}
}

// request is one attempt of a request.
type request struct {
	*http.Request
	service, operation string
	body               []byte
	keys               []string // of the payments and refused records in it
	name               string
}

// storedKey matches what may be the stored key of a record, or of its place.
var storedKey = regexp.MustCompile(`sha256:[0-9a-f]{64}|` + function + `[#@][0-9A-Za-z#@._:-]+`)

func (l *link) read(r *http.Request) (*request, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	target := r.Header.Get("X-Amz-Target")
	service, operation, _ := strings.Cut(target, ".")
	rq := &request{Request: r, service: service, operation: operation, body: body, keys: l.keysIn(body)}
	same := operation + " " + strings.Join(rq.keys, ",")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.same[same]++
	rq.name = l.process.name + " " + same + " " + strconv.Itoa(l.same[same])
	return rq, nil
}

// keysIn returns the keys of records in a request.
func (w *world) keysIn(body []byte) []string {
	keys := storedKey.FindAllString(string(body), -1)
	slices.Sort(keys)
	keys = slices.Compact(keys)
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(keys, func(key string) bool { return !w.topic.known[key] })
}

// failedLately reports whether a request of the process had a fault or was held in the last minute.
func (l *link) failedLately() bool { return l.failedSince(time.Now().Add(-time.Minute)) }

// failedSince reports whether a request of the process has had a fault or was held since then.
func (l *link) failedSince(then time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed.After(then)
}

func (l *link) fails() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = time.Now()
}

// Do implements aws.HTTPClient.
func (l *link) Do(r *http.Request) (*http.Response, error) {
	rq, err := l.read(r)
	if err != nil {
		return nil, err
	}
	ctx := r.Context()
	if !l.calm() && l.faults.strikes(pause, 0.06*l.rate(pause), rq.name) {
		l.hold(time.Duration(l.dice.between(1100, 3000, "pause at "+rq.name)) * l.lease / 1000)
	}
	if err := l.waitHeld(ctx); err != nil {
		return nil, err
	}
	crashes := !l.calm() && l.faults.strikes(crash, 0.06*l.rate(crash), rq.name)
	after := crashes && l.dice.chance(0.6, "crash after "+rq.name)
	if crashes && !after {
		l.log(rq.name, "the process ends before the request is sent")
		l.process.end()
	}
	if l.process.ended() {
		return nil, errEnded
	}
	if err := sleep(ctx, l.latency(rq.name)); err != nil && l.dice.chance(0.5, "abandoned "+rq.name) {
		return nil, err // the request was not sent yet
	}
	resp, err := l.carry(ctx, rq)
	if after {
		l.log(rq.name, "the process ends before the reply arrives")
		l.process.end()
	}
	if l.process.ended() {
		return nil, errEnded
	}
	if err != nil {
		return nil, err
	}
	if err := errors.Join(sleep(ctx, l.latencyOf(rq)), l.waitHeld(ctx)); err != nil {
		return nil, err
	}
	return resp, nil
}

// latency is from 0.5 to 12 ms, and different for all requests.
func (l *link) latency(name string) time.Duration {
	return time.Duration(l.dice.between(500_000, 12_000_000, "latency "+name))
}

// latencyOf is the latency of a reply.
func (l *link) latencyOf(rq *request) time.Duration {
	if rq.service == "AmazonSQS" && l.is("letters", "slow queue") {
		return time.Duration(l.dice.between(500, 4000, "slow queue "+rq.name)) * time.Millisecond
	}
	return l.latency(rq.name + " reply")
}

// hold holds all requests and replies for d.
func (l *link) hold(d time.Duration) {
	l.log(l.process.name, "pauses for "+d.String())
	l.process.notePause(d)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heldTo = time.Now().Add(d)
}

func (l *link) waitHeld(ctx context.Context) error {
	l.mu.Lock()
	d := time.Until(l.heldTo)
	l.mu.Unlock()
	if d <= 0 {
		return nil
	}
	defer l.fails()
	return sleep(ctx, d)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// carry brings a request to its service and the reply back, with the request's fault.
func (l *link) carry(ctx context.Context, rq *request) (*http.Response, error) {
	if rq.service == "AmazonSQS" && l.during(fullQueue) {
		l.log(rq.name, fullQueue)
		return failure(http.StatusForbidden, "AccessDenied"), nil
	}
	kind := ""
	switch {
	case rq.service != "AmazonSQS" && l.during(storeDown):
		kind = pick(l.dice, "store down "+rq.name, storeFaults...)
	case !l.calm():
		kind = l.faults.ofRequest(rq.name)
	}
	if kind != "" {
		l.fails()
	}
	switch kind {
	case refused:
		l.log(rq.name, kind)
		return nil, errRefused
	case reset:
		l.log(rq.name, kind)
		return nil, errReset
	case lostReply:
		l.perform(l.process, rq, kind)
		return nil, errReset
	case silent:
		l.log(rq.name, kind)
		return nil, l.silence(ctx)
	case silentReply:
		l.perform(l.process, rq, kind)
		return nil, l.silence(ctx)
	case slow:
		out := l.perform(l.process, rq, kind)
		if rq.operation == "UpdateItem" && l.dice.chance(0.5, "short "+rq.name) {
			// The extension of a heartbeat must be answered within a quarter of a second.
			defer l.hold(time.Duration(l.dice.between(0, 1500, "hold after "+rq.name)) * l.lease / 1000)
			return out.response(), sleep(ctx, time.Duration(l.dice.between(50, 240, "slow "+rq.name))*time.Millisecond)
		}
		return out.response(), sleep(ctx,
			time.Duration(l.dice.between(200, 1900, "slow "+rq.name))*dynamostore.AttemptTimeout/2000)
	case late:
		d := time.Duration(l.dice.between(100, 3000, "late "+rq.name)) * l.lease / 1000
		l.running.Go(func() {
			_ = sleep(context.Background(), d) // can't end early
			l.perform(l.process, rq, "late by "+d.String())
		})
		return nil, l.silence(ctx)
	case throttled:
		l.log(rq.name, kind)
		return failure(http.StatusBadRequest, "ThrottlingException"), nil
	case internal:
		l.log(rq.name, kind)
		return failure(http.StatusInternalServerError, "InternalServerError"), nil
	case internalApplied:
		l.perform(l.process, rq, kind)
		return failure(http.StatusInternalServerError, "InternalServerError"), nil
	case conflict:
		if resp := conflictOf(rq); resp != nil {
			l.log(rq.name, kind)
			return resp, nil
		}
	case partial:
		if resp := l.inPart(rq); resp != nil {
			return resp, nil
		}
	}
	return l.perform(l.process, rq, "").response(), nil
}

func (l *link) silence(ctx context.Context) error {
	if err := sleep(ctx, dynamostore.AttemptTimeout); err != nil {
		return err
	}
	return errSilent
}

// reply is a service's answer.
type reply struct {
	status int
	body   []byte
}

func (r reply) response() *http.Response { return response(r.status, r.body) }

func failure(status int, code string) *http.Response {
	return response(status, fmt.Appendf(nil,
		`{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"injected"}`, code))
}

func response(status int, body []byte) *http.Response {
	return &http.Response{
		StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(len(body)),
		Body:   io.NopCloser(bytes.NewReader(body)),
		Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
	}
}

// conflictOf returns the answer to a write of an item that a transaction is writing, nil for a request that
// can't get it.
func conflictOf(rq *request) *http.Response {
	switch rq.operation {
	case "PutItem", "UpdateItem":
		return failure(http.StatusBadRequest, "TransactionConflictException")
	case "TransactWriteItems":
		var in struct{ TransactItems []json.RawMessage }
		if err := json.Unmarshal(rq.body, &in); err != nil {
			panic(err) // the SDK wrote it
		}
		reasons := `{"Code":"TransactionConflict","Message":"injected"}` +
			strings.Repeat(`,{"Code":"None"}`, len(in.TransactItems)-1)
		return response(http.StatusBadRequest, fmt.Appendf(nil,
			`{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException","message":"injected","CancellationReasons":[%s]}`, reasons))
	}
	return nil
}

// inPart performs a part of a batch, nil for a request that is no batch.
func (l *link) inPart(rq *request) *http.Response {
	switch rq.operation {
	case "BatchExecuteStatement":
		return l.statementsInPart(rq)
	case "BatchGetItem":
		return l.keysInPart(rq)
	}
	return nil
}

// without returns the request with another body.
func (w *world) without(rq *request, body any) *request {
	left := *rq
	var err error
	if left.body, err = json.Marshal(body); err != nil {
		panic(err) // raw messages encode
	}
	left.keys = w.keysIn(left.body)
	return &left
}

func (l *link) statementsInPart(rq *request) *http.Response {
	var in struct{ Statements []json.RawMessage }
	if err := json.Unmarshal(rq.body, &in); err != nil {
		panic(err)
	}
	answers := make([]json.RawMessage, len(in.Statements))
	var left []json.RawMessage
	var which []int
	for i, statement := range in.Statements {
		name := "part " + rq.name + " " + strings.Join(l.keysIn(statement), ",")
		if l.dice.chance(0.5, name) {
			code := pick(l.dice, "code of "+name, "ThrottlingError", "TransactionConflict",
				"InternalServerError", "ProvisionedThroughputExceeded")
			answers[i] = fmt.Appendf(nil, `{"Error":{"Code":%q,"Message":"injected"},"TableName":%q}`, code,
				keysTable)
			continue
		}
		left, which = append(left, statement), append(which, i)
	}
	if len(left) > 0 {
		answer := l.perform(l.process, l.without(rq, map[string]any{"Statements": left}), partial)
		var out struct{ Responses []json.RawMessage }
		if err := json.Unmarshal(answer.body, &out); err != nil || len(out.Responses) != len(left) {
			panic("a batch was refused: " + string(answer.body))
		}
		for n, i := range which {
			answers[i] = out.Responses[n]
		}
	}
	body, err := json.Marshal(map[string]any{"Responses": answers})
	if err != nil {
		panic(err)
	}
	return response(http.StatusOK, body)
}

func (l *link) keysInPart(rq *request) *http.Response {
	type tableKeys struct {
		Keys           []json.RawMessage
		ConsistentRead bool
	}
	var in struct{ RequestItems map[string]tableKeys }
	if err := json.Unmarshal(rq.body, &in); err != nil {
		panic(err)
	}
	asked := in.RequestItems[keysTable]
	var read, unread []json.RawMessage
	for _, key := range asked.Keys {
		if l.dice.chance(0.5, "part "+rq.name+" "+strings.Join(l.keysIn(key), ",")) {
			unread = append(unread, key)
			continue
		}
		read = append(read, key)
	}
	out := map[string]any{"Responses": map[string][]json.RawMessage{keysTable: {}}}
	if len(read) > 0 {
		answer := l.perform(l.process, l.without(rq,
			map[string]any{"RequestItems": map[string]tableKeys{keysTable: {read, asked.ConsistentRead}}}),
			partial)
		if err := json.Unmarshal(answer.body, &out); err != nil {
			panic(err)
		}
	}
	if len(unread) > 0 {
		out["UnprocessedKeys"] = map[string]tableKeys{keysTable: {unread, asked.ConsistentRead}}
	}
	body, err := json.Marshal(out)
	if err != nil {
		panic(err)
	}
	return response(http.StatusOK, body)
}

// call performs a request at a service.
func call(service http.Handler, target string, body []byte) (status int, out []byte) {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "http://aws.invalid/",
		bytes.NewReader(body))
	r.Header.Set("X-Amz-Target", target)
	w := httptest.NewRecorder()
	service.ServeHTTP(w, r)
	return w.Code, w.Body.Bytes()
}

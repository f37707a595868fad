package local

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"

	"github.com/idemsk/idemsk/internal/fake/localhttp"
)

// The moments of an invocation at which a process is killed. An effect is a write to a table other than that
// of the keys.
const (
	KillAny          = "any"           // a random moment
	KillBeforeEffect = "before-effect" // when it requests an effect, which is not performed
	KillAfterEffect  = "after-effect"  // after an effect, before the process gets the answer
)

// killPoint is the DynamoDB endpoint of a process. It kills the process before or after an effect.
type killPoint struct {
	*localhttp.Server

	tables http.Handler
	keys   string // the table of keys
	after  bool
	kill   func()
	armed  atomic.Bool
}

// startKillPoint listens on a free port of 127.0.0.1 in front of the tables.
func startKillPoint(tables http.Handler, keys string, after bool) (*killPoint, error) {
	k := &killPoint{tables: tables, keys: keys, after: after}
	var err error
	if k.Server, err = localhttp.New(localhttp.FreePort, k); err == nil {
		err = k.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("the DynamoDB endpoint for a process (--kill-at): %w", err)
	}
	return k, nil
}

// ServeHTTP performs a request. If it is armed and the request is an effect, it kills the process and sends
// no answer.
func (k *killPoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the process is gone
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if !k.effect(r, body) || !k.armed.CompareAndSwap(true, false) {
		k.tables.ServeHTTP(w, r)
		return
	}
	if k.after {
		answer := answer{header: make(http.Header), status: http.StatusOK}
		k.tables.ServeHTTP(&answer, r)
		if answer.status != http.StatusOK { // there was no effect
			k.armed.Store(true)
			answer.copy(w)
			return
		}
	}
	k.kill()
	<-r.Context().Done() // its connection ends with it
}

// tableNames matches the tables of a request. It does not match strings in items, because their quotes are
// escaped.
var tableNames = regexp.MustCompile(`"TableName"\s*:\s*"([^"]*)"`)

func (k *killPoint) effect(r *http.Request, body []byte) bool {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	switch operation {
	case "PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems":
	default:
		return false
	}
	for _, name := range tableNames.FindAllSubmatch(body, -1) {
		if string(name[1]) != k.keys {
			return true
		}
	}
	return false
}

// answer records a response.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

func (a *answer) copy(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes()) // the process is gone
}

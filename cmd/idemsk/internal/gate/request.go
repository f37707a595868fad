package gate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/idemsk/idemsk/idem/store"

	"github.com/idemsk/idemsk/idem/dynamostore"
)

// maxBody is DynamoDB's limit on a request, in bytes.
const maxBody = 16 << 20

// request is what the gate wants to know of a request.
type request struct {
	Operation                 string
	TableName                 string
	Key                       map[string]attribute
	Item                      map[string]attribute
	UpdateExpression          string
	ExpressionAttributeNames  map[string]string
	ExpressionAttributeValues map[string]attribute
}

// attribute is a DynamoDB value, of which strings matter here.
type attribute struct{ S *string }

// ServeHTTP lets a request pass, counts it, and holds it if it is an effect that is to wait.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		return // of flush; DynamoDB has none
	}
	req, err := read(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	effect := req.TableName == g.cfg.Ledger && req.Operation == "UpdateItem"
	var p *process
	if effect {
		if p = g.admit(r.Context()); p == nil {
			panic(http.ErrAbortHandler) // there is nobody to answer
		}
	} else {
		p = g.current()
	}
	answer := &answer{ResponseWriter: w}
	finished := false
	defer func() { // also if the upstream gives the request up by a panic
		ok := finished && answer.ok()
		if effect {
			g.effectDone(p, ok)
		}
		g.note(p, req, ok)
	}()
	g.cfg.Upstream.ServeHTTP(answer, r)
	finished = true
}

func (g *Gate) current() *process {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.process
}

// read takes a request's body apart and puts it back.
func read(r *http.Request) (*request, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return nil, fmt.Errorf("reading the request: %w", err)
	}
	if len(body) > maxBody {
		return nil, fmt.Errorf("the request has more than %d bytes", maxBody)
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	req := &request{}
	if err := json.Unmarshal(body, req); err != nil {
		return nil, fmt.Errorf("the request is not JSON: %w", err)
	}
	_, req.Operation, _ = strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	return req, nil
}

// key is the idempotency key that a request is about.
func (r *request) key() string {
	for _, in := range []map[string]attribute{r.Key, r.Item} {
		if s := in[dynamostore.AttrKey].S; s != nil {
			return *s
		}
	}
	return ""
}

// setting finds the placeholders of an assignment in an update expression.
var setting = regexp.MustCompile(`(#\w+) = (:\w+)`)

// completes reports whether the request sets a key to COMPLETED.
func (r *request) completes() bool {
	if r.Operation != "UpdateItem" {
		return false
	}
	for _, m := range setting.FindAllStringSubmatch(r.UpdateExpression, -1) {
		if v := r.ExpressionAttributeValues[m[2]].S; r.ExpressionAttributeNames[m[1]] == dynamostore.AttrStatus && v != nil {
			return *v == string(store.StatusCompleted)
		}
	}
	return false
}

// answer remembers the status that it passes on.
type answer struct {
	http.ResponseWriter
	status int
}

func (a *answer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController, by which a proxy flushes.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) ok() bool { return a.status == 0 || a.status == http.StatusOK }

package adapters

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// Idempotent performs a request once for each client and Idempotency-Key. Later requests with this key get
// the stored answer. client returns who sent a request, for example the account that it was authenticated as.
// An answer of 500 or more is not stored: the next request with the key is performed. If the process dies, the
// next request after the end of its lease is performed.
func Idempotent(engine *idem.Engine, client func(*http.Request) string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if key == "" || err != nil {
			http.Error(w, "want an Idempotency-Key, and a body of at most 1 MiB", http.StatusBadRequest)
			return
		}
		var failed answer
		out := engine.Do(r.Context(), idem.Task{
			Key:         fmt.Sprintf("http#%q#%s", client(r), key),
			Fingerprint: store.FingerprintOf(fmt.Appendf(nil, "%s %s\n%s", r.Method, r.URL.RequestURI(), body)),
			Source:      r.Method + " " + r.URL.Path,
			Handler: idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
				again, a := r.WithContext(ctx), answer{Fields: make(http.Header)}
				again.Body = io.NopCloser(strings.NewReader(string(body)))
				next.ServeHTTP(&a, again)
				if a.Status >= http.StatusInternalServerError {
					failed = a
					return nil, fmt.Errorf("the answer is %d", a.Status)
				}
				return json.Marshal(a)
			}),
		})
		var stored answer
		switch {
		case out.Kind.Settled() && json.Unmarshal(out.Result, &stored) == nil:
			stored.send(w)
		case errors.Is(out.Err, store.ErrResultNotStored):
			http.Error(w, "done before; the answer was too large to be stored", http.StatusGone)
		case out.Kind == idem.Mismatched:
			http.Error(w, "this Idempotency-Key belongs to another request", http.StatusUnprocessableEntity)
		case out.Kind == idem.InFlight || out.Kind == idem.Fenced:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "a request with this Idempotency-Key is in progress", http.StatusConflict)
		case failed.Status != 0:
			failed.send(w)
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "try again with the same Idempotency-Key", http.StatusServiceUnavailable)
		}
	})
}

// answer is a response as it is stored.
type answer struct {
	Status int
	Fields http.Header
	Body   []byte
}

func (a *answer) Header() http.Header { return a.Fields }

func (a *answer) WriteHeader(status int) { a.Status = cmp.Or(a.Status, status) }

func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	a.Body = append(a.Body, b...)
	return len(b), nil
}

func (a *answer) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.Fields)
	w.WriteHeader(cmp.Or(a.Status, http.StatusOK))
	_, _ = w.Write(a.Body) // the client may have left
}

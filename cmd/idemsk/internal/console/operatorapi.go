package console

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// maxChange is the maximum size in bytes of a request of an operator. An export is the largest.
const maxChange = 16 << 20

// Operate serves the page of a store until the context ends. It calls say with the page's address. c.Source
// is not used.
func Operate(ctx context.Context, c Config, o Operator, say func(url string)) error {
	listener, host, err := listen(c)
	if err != nil {
		return err
	}
	const headerTimeout = 10 * time.Second
	server := &http.Server{Handler: operatorHandler(o, host, c.Password, rand.Text()),
		ReadHeaderTimeout: headerTimeout}
	say("http://" + listener.Addr().String() + "/")
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func operatorHandler(o Operator, host, password, token string) http.Handler {
	mux := muxOf("store.html", token, "common.js", "store.js", "console.css", "store.css")
	mux.HandleFunc("GET /api/store", func(w http.ResponseWriter, r *http.Request) {
		reply(w, o.Store(r.Context()))
	})
	mux.HandleFunc("GET /api/entry", func(w http.ResponseWriter, r *http.Request) {
		e, err := o.Entry(r.Context(), Search{Key: r.FormValue("key"), Namespace: r.FormValue("namespace"),
			Topic: r.FormValue("topic")})
		answer(w, e, err)
	})
	mux.HandleFunc("GET /api/entries", func(w http.ResponseWriter, r *http.Request) {
		found, err := o.Entries(r.Context(), Filter{
			Status: r.FormValue("status"), Overdue: r.FormValue("overdue") == "true",
			Failure: r.FormValue("failure") == "true",
			Before:  r.FormValue("before"), Has: r.FormValue("has"), Cursor: r.FormValue("cursor"),
		})
		answer(w, found, err)
	})
	mux.HandleFunc("GET /api/parked", func(w http.ResponseWriter, r *http.Request) {
		found, err := o.Parked(r.Context())
		answer(w, found, err)
	})
	mux.HandleFunc("GET /api/letters", func(w http.ResponseWriter, r *http.Request) {
		letters, err := o.Letters(r.Context())
		answer(w, letters, err)
	})
	mux.HandleFunc("POST /api/reconcile", func(w http.ResponseWriter, r *http.Request) {
		perform(w, r, maxChange, o.Reconcile)
	})
	mux.HandleFunc("POST /api/actions", func(w http.ResponseWriter, r *http.Request) {
		perform(w, r, maxChange, said(o.Do))
	})
	return &guard{next: mux, host: host, password: password, token: token}
}

// said makes what is done answer with what it says.
func said[In any](do func(context.Context, In) (string, error)) func(context.Context, In) (map[string]string, error) {
	return func(ctx context.Context, in In) (map[string]string, error) {
		done, err := do(ctx, in)
		return map[string]string{"done": done}, err
	}
}

// perform reads what a request of at most so many bytes asks for, and answers with what becomes of it.
func perform[In, Out any](w http.ResponseWriter, r *http.Request, bytes int64,
	do func(context.Context, In) (Out, error)) {
	var in In
	if err := readBody(http.MaxBytesReader(w, r.Body, bytes), &in); err != nil {
		refuse(w, http.StatusBadRequest, "the request can't be read: "+err.Error())
		return
	}
	out, err := do(r.Context(), in)
	answer(w, out, err)
}

// readBody reads the one JSON value of a body.
func readBody(body io.Reader, into any) error {
	decoder := json.NewDecoder(body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON value")
	}
	return nil
}

// answer answers a request with a value, or with an error and its status.
func answer(w http.ResponseWriter, v any, err error) {
	if err == nil {
		reply(w, v)
		return
	}
	status := http.StatusBadGateway // the store, the queue or Kafka has refused, or does not answer
	for of, is := range map[error]int{
		ErrAction: http.StatusBadRequest, ErrFile: http.StatusBadRequest, ErrInput: http.StatusBadRequest,
		ErrReadOnly: http.StatusForbidden, ErrCursor: http.StatusGone,
		store.ErrNotFound: http.StatusNotFound, store.ErrFenced: http.StatusConflict,
		store.ErrInvalidKey: http.StatusBadRequest,
	} {
		if errors.Is(err, of) {
			status = is
		}
	}
	refuse(w, status, err.Error())
}

package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// maxBody is the maximum size in bytes of a request that changes something: a file, each of whose bytes may
// be escaped in JSON.
const maxBody = 2*MaxFile + 1<<20

// api answers the requests of the page.
type api struct {
	shown   atomic.Pointer[Source]
	streams chan struct{} // its capacity is the maximum number of streams
	every   time.Duration // the interval of a stream
	ending  chan struct{} // closed when the streams are to send their last state
}

const (
	maxStreams  = 64
	streamEvery = 250 * time.Millisecond
	lastState   = time.Second // until a page must have taken it
)

func newAPI(source Source) *api {
	a := &api{streams: make(chan struct{}, maxStreams), every: streamEvery, ending: make(chan struct{})}
	a.shown.Store(&source)
	return a
}

func (a *api) source() Source { return *a.shown.Load() }

func (a *api) handler(host, password, token string) http.Handler {
	mux := muxOf("index.html", token, "common.js", "console.js", "console.css")
	mux.HandleFunc("GET /api/run", func(w http.ResponseWriter, _ *http.Request) { reply(w, a.source().Run()) })
	mux.HandleFunc("GET /api/stream", a.stream)
	mux.HandleFunc("GET /api/keys", a.keys)
	mux.HandleFunc("GET /api/key", a.key)
	mux.HandleFunc("GET /api/invocations",
		func(w http.ResponseWriter, _ *http.Request) { reply(w, a.source().Invocations()) })
	mux.HandleFunc("GET /api/invocation", a.invocation)
	mux.HandleFunc("GET /api/letters", func(w http.ResponseWriter, r *http.Request) {
		letters, err := a.source().Letters(r.Context())
		answer(w, letters, err)
	})
	mux.HandleFunc("GET /api/verdict", func(w http.ResponseWriter, r *http.Request) {
		verdict, err := a.source().Verdict(r.Context())
		answer(w, verdict, err)
	})
	mux.HandleFunc("POST /api/actions", func(w http.ResponseWriter, r *http.Request) {
		perform(w, r, maxBody, said(a.source().Do))
	})
	return &guard{next: mux, host: host, password: password, token: token}
}

func (a *api) keys(w http.ResponseWriter, r *http.Request) {
	reply(w, a.source().Keys(Query{Has: r.FormValue("has"), State: r.FormValue("state")}))
}

func (a *api) key(w http.ResponseWriter, r *http.Request) {
	h, ok := a.source().History(r.FormValue("key"))
	if !ok {
		refuse(w, http.StatusNotFound, "no history of this key is kept")
		return
	}
	reply(w, h)
}

func (a *api) invocation(w http.ResponseWriter, r *http.Request) {
	number, err := strconv.Atoi(r.FormValue("number"))
	d, ok := a.source().Invocation(number)
	if err != nil || !ok {
		refuse(w, http.StatusNotFound, "this invocation is not kept")
		return
	}
	reply(w, d)
}

// stream sends the state of the run at an interval, and a last one when the server ends. A slow reader misses
// states, never counts: each state has all of them.
func (a *api) stream(w http.ResponseWriter, r *http.Request) {
	select {
	case a.streams <- struct{}{}:
		defer func() { <-a.streams }()
	default:
		refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("%d pages are open: close one", maxStreams))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	ticker := time.NewTicker(a.every)
	defer ticker.Stop()
	for last := false; ; {
		state, err := json.Marshal(a.source().Run())
		if err != nil {
			return
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", state); err != nil || out.Flush() != nil || last {
			return
		}
		select {
		case <-ticker.C:
		case <-a.ending:
			last = true
		case <-r.Context().Done():
			return
		}
	}
}

// end makes the streams send their last state, and waits for them, for lastState at most. No stream begins
// after it.
func (a *api) end() {
	close(a.ending)
	timeout := time.After(lastState)
	for range cap(a.streams) {
		select {
		case a.streams <- struct{}{}:
		case <-timeout:
			return
		}
	}
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // an error means that the browser has gone
}

func refuse(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": message})
}

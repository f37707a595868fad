//go:build rest

package e2e_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/idem/storetest"
)

// processVariable makes the test binary a process of a test. It has the setup as JSON.
const processVariable = "IDEMSK_E2E_PROCESS"

// setup is the setup of a process.
type setup struct {
	Name, Kind, URL    string
	Lease, Skew, Ahead time.Duration // Ahead: of its clock; negative if it is behind
	Silence            time.Duration // after which a connection counts as silent; 0: patience
}

func (s *setup) silence() time.Duration { return cmp.Or(s.Silence, patience) }

// The orders to a process.
const (
	claim  = "claim"  // claims the keys in one call and begins their handlers
	take   = "take"   // waits for each key, takes it over, and begins its handler
	effect = "effect" // of the handler
	finish = "finish" // the handler returns the name of the process
	fail   = "fail"   // the handler returns an error
	extend = "extend" // sends an extension, whatever the process knows of its lease
)

// order is a line that a process reads.
type order struct {
	Do   string
	Keys []string
}

// The events of a process.
const (
	begun    = "begun"    // a handler
	effected = "effected" // Text is the error, if there was one
	lost     = "lost"     // the context of a handler ended; Text is the cause
	extended = "extended" // or refused: Text is the error
	ended    = "ended"    // the task: Text is the outcome
)

// event is a line that a process writes.
type event struct {
	Key, What, Text string
	At              time.Time
}

// worker is a process of the test: it obeys orders, and has handlers that wait for them.
type worker struct {
	setup
	books  *books
	engine *idem.Engine

	mu   sync.Mutex
	out  *json.Encoder
	held map[string]*handler
}

// handler is a handler that runs.
type handler struct {
	entry  store.Entry // as claimed
	orders chan string
}

// work reads orders from standard input until it ends, and writes events to standard output.
func work(text string) int {
	w := &worker{out: json.NewEncoder(os.Stdout), held: make(map[string]*handler)}
	if err := w.run(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (w *worker) run(text string) (err error) {
	if err := json.Unmarshal([]byte(text), &w.setup); err != nil {
		return err
	}
	kind := kinds[w.Kind]
	if w.books, err = kind.open(w.URL, w.setup); err != nil {
		return err
	}
	if w.books.store, err = storetest.TracedProcess(w.books.store); err != nil {
		return err
	}
	if w.engine, err = idem.New(w.books.store,
		idem.Config{Lease: w.Lease, Unbatched: kind.unbatched}); err != nil {
		return err
	}
	scheduler, err := idem.NewScheduler(w.engine, idem.SchedulerConfig{Backoff: time.Hour}) // an item is tried once
	if err != nil {
		return err
	}
	ended := func(it *idem.Item) { w.ended(it.Task.Key, it.Outcome) }
	stream := scheduler.Stream(context.Background(), ended, ended)
	defer stream.Close(context.Background())
	for in := json.NewDecoder(os.Stdin); ; {
		var o order
		if in.Decode(&o) != nil {
			return nil
		}
		switch o.Do {
		case claim:
			items := make([]*idem.Item, len(o.Keys))
			for i, key := range o.Keys {
				items[i] = &idem.Item{Lane: key, Task: w.task(key)}
			}
			stream.Add(items...)
		case take:
			for _, key := range o.Keys {
				go func() { w.ended(key, w.engine.Do(context.Background(), w.task(key))) }()
			}
		case extend:
			for _, key := range o.Keys {
				w.extend(key)
			}
		default:
			for _, key := range o.Keys {
				w.holding(key).orders <- o.Do
			}
		}
	}
}

func (w *worker) task(key string) idem.Task {
	return idem.Task{Key: key, Fingerprint: store.FingerprintOf([]byte(key)),
		Handler: idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
			at := time.Now()
			// a busy machine can lose the lease
			entry, err := w.books.store.Get(context.WithoutCancel(ctx), key)
			if err != nil {
				return nil, err
			}
			h := &handler{entry, make(chan string)}
			w.mu.Lock()
			w.held[key] = h
			w.mu.Unlock()
			w.say(event{Key: key, What: begun, At: at})
			for over := ctx.Done(); ; {
				select {
				case <-over:
					over = nil // it goes on, as a handler does that does not observe its context
					w.say(event{Key: key, What: lost, Text: context.Cause(ctx).Error()})
				case o := <-h.orders:
					switch o {
					case effect:
						w.say(event{Key: key, What: effected,
							Text: textOf(w.books.effect(context.WithoutCancel(ctx), key))})
					case fail:
						return nil, errors.New("ordered to fail")
					case finish:
						return []byte(w.Name), nil
					}
				}
			}
		})}
}

func (w *worker) holding(key string) *handler {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held[key]
}

// extend sends the extension of a claim without the engine, which does not send one if the lease is over by
// the local clock.
func (w *worker) extend(key string) {
	held := w.holding(key).entry
	errs := w.books.store.Settle(context.Background(), []store.Settlement{{
		Op: store.OpExtend, Key: held.Key, Token: held.Token, Owner: held.Owner, Lease: w.Lease,
		Retention: time.Hour,
	}})
	w.say(event{Key: key, What: extended, Text: textOf(errors.Join(errs...))})
}

func (w *worker) ended(key string, out idem.Outcome) {
	text := out.Kind.String()
	if out.Kind.Settled() {
		text += " by " + string(out.Result)
	}
	w.say(event{Key: key, What: ended, Text: text})
}

func (w *worker) say(e event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.out.Encode(e) // the test misses it
}

func textOf(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

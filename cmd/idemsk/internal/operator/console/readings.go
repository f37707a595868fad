package console

import (
	"context"
	"crypto/rand"
	"iter"
	"slices"
	"sync"

	page "github.com/idemsk/idemsk/cmd/idemsk/internal/console"
	"github.com/idemsk/idemsk/idem/store"
)

// readings are listings that a page has read in part, and may read on: at most maxReadings, the latest ones.
type readings struct {
	ctx context.Context //nolint:containedctx // a listing outlives the request that has begun it

	mu   sync.Mutex
	open []*reading // the oldest first
}

const maxReadings = 16

// reading is a listing that was read in part. Its place is that of the iterator: no connection is kept.
type reading struct {
	id     string
	next   func() (store.Entry, error, bool)
	stop   func()
	cancel context.CancelFunc
}

func (r *reading) end() {
	r.cancel()
	r.stop()
}

// begin begins a listing.
func (r *readings) begin(list func(ctx context.Context) iter.Seq2[store.Entry, error]) *reading {
	ctx, cancel := context.WithCancel(r.ctx)
	next, stop := iter.Pull2(list(ctx))
	return &reading{id: rand.Text(), next: next, stop: stop, cancel: cancel}
}

// take takes a listing that a page reads on. Two requests can't read it at once.
func (r *readings) take(id string) (*reading, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.open, func(x *reading) bool { return x.id == id })
	if i < 0 {
		return nil, page.ErrCursor
	}
	found := r.open[i]
	r.open = slices.Delete(r.open, i, i+1)
	return found, nil
}

// keep keeps a listing to be read on, and ends the oldest one if there are too many.
func (r *readings) keep(x *reading) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open = append(r.open, x); len(r.open) > maxReadings {
		r.open[0].end()
		r.open = slices.Delete(r.open, 0, 1)
	}
}

func (r *readings) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.open {
		x.end()
	}
	r.open = nil
}

// read calls add for each entry of a listing until add returns false, and returns the cursor of the rest, ""
// at the end. The end of ctx ends the listing, so that a page that was closed reads nothing more.
func (r *readings) read(ctx context.Context, x *reading,
	add func(store.Entry, error) (more bool, err error)) (cursor string, err error) {
	stop := context.AfterFunc(ctx, x.cancel)
	for {
		v, err, ok := x.next()
		if !ok {
			break
		}
		more, err := add(v, err)
		if err != nil {
			stop()
			x.end()
			return "", err
		}
		if !more {
			if !stop() {
				break
			}
			r.keep(x)
			return x.id, nil
		}
	}
	stop()
	x.end()
	return "", context.Cause(ctx)
}

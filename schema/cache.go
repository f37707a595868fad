package schema

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/idemsk/idemsk/idem"
)

// cache has the compiled types of schemas by their IDs. When it is full, the one that was fetched first is
// removed.
type cache struct {
	registry Registry
	formats  map[string]Format
	limits   Limits // of the values of a type
	size     int
	timeout  time.Duration
	keep     time.Duration // of a failure

	mu      sync.Mutex
	entries map[string]*entry
	order   []string // the IDs, in the order in which they were fetched
	silence silence
}

// silence is the time in which no schema is fetched, because the registry did not answer for another one. So
// all schemas of a batch wait for a silent registry once, not each of them.
type silence struct {
	err   error
	until time.Time
}

// compiled is the type of a schema.
type compiled struct {
	Type
	dataFormat string
}

// entry is a schema that was fetched or is being fetched. Its fields are set when done is closed.
type entry struct {
	done  chan struct{}
	typ   compiled
	err   error
	until time.Time // a failure is not used later
}

// get returns a type. One call fetches it, and concurrent ones wait for it.
func (c *cache) get(ctx context.Context, id string) (compiled, error) {
	e := c.entry(id)
	select {
	case <-e.done:
		return e.typ, e.err
	case <-ctx.Done():
		return compiled{}, idem.Unavailable(
			fmt.Errorf("waiting for the schema %s of %s: %w", id, c.registry, context.Cause(ctx)))
	}
}

// entry returns the entry of an ID. If there is none, or a failure that is too old, it begins to fetch the
// schema.
func (c *cache) entry(id string) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, known := c.entries[id]
	if known && !e.stale() {
		return e
	}
	if time.Now().Before(c.silence.until) {
		return c.untried(id)
	}
	if !known {
		if len(c.order) == c.size {
			delete(c.entries, c.order[0])
			c.order = append(c.order[:0], c.order[1:]...)
		}
		c.order = append(c.order, id)
	}
	e = &entry{done: make(chan struct{})}
	c.entries[id] = e
	go c.fetch(e, id) // ends after the timeout
	return e
}

func (e *entry) stale() bool {
	select {
	case <-e.done:
		return e.err != nil && time.Now().After(e.until)
	default:
		return false
	}
}

func (c *cache) fetch(e *entry, id string) {
	defer close(e.done)
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	e.typ, e.err = c.compile(ctx, id)
	e.until = time.Now().Add(c.keep)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case e.err == nil:
		c.silence = silence{}
	case silent(ctx, e.err):
		c.silence = silence{e.err, e.until}
	}
}

// silent reports whether a schema was not fetched because no answer arrived in time, from the registry or to
// an attempt of its client.
func silent(ctx context.Context, err error) bool {
	var timeout interface{ Timeout() bool }
	return idem.IsUnavailable(err) && (ctx.Err() != nil || errors.As(err, &timeout) && timeout.Timeout())
}

// untried returns the entry of a schema that is not fetched while the registry is silent. It is not kept.
func (c *cache) untried(id string) *entry {
	e := &entry{done: make(chan struct{})}
	e.err = idem.Unavailable(fmt.Errorf(
		"the schema %s of %s is not fetched for now, because another one was not: %w", id, c.registry,
		c.silence.err))
	close(e.done)
	return e
}

// compile fetches a schema and compiles it. It runs in a goroutine of its own, where a panic would end the
// process.
func (c *cache) compile(ctx context.Context, id string) (typ compiled, err error) {
	var s *Schema
	defer func() {
		v := recover()
		switch {
		case v != nil && s == nil:
			err = idem.Unavailable(fmt.Errorf("fetching the schema %s of %s: panic: %v", id, c.registry, v))
		case v != nil:
			err = fmt.Errorf("the schema %s of %s (%s) can't be compiled: panic: %v", id, c.registry,
				s.DataFormat, v)
		}
	}()
	s, err = c.registry.Fetch(ctx, id)
	switch {
	case errors.Is(err, ErrUnknown):
		return compiled{}, fmt.Errorf("the schema %s of %s: %w", id, c.registry, err)
	case err != nil:
		return compiled{}, idem.Unavailable(
			fmt.Errorf("fetching the schema %s of %s: %w", id, c.registry, err))
	}
	format := c.formats[s.DataFormat]
	if format == nil {
		return compiled{}, fmt.Errorf("the schema %s of %s has the data format %q, which Config.Formats lacks", id, c.registry, s.DataFormat)
	}
	s.Limits = c.limits
	t, err := format.Compile(s)
	if err != nil {
		return compiled{}, fmt.Errorf("the schema %s of %s (%s): %w", id, c.registry, s.DataFormat, err)
	}
	return compiled{t, s.DataFormat}, nil
}

package schedule_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/schedule"
	"github.com/idemsk/idemsk/idem/store"
)

const (
	rangeLease    = 10 * time.Second
	rangeAttempts = 3
)

// partitions are the records of a topic, and what happened to them.
type partitions struct {
	*testing.T
	store  *memstore.Store
	topic  [][]string // the keys of each partition's records; an offset is an index
	handle func(ctx context.Context, key string) error
	bulk   bool // handlers are called for many records at once

	mu   sync.Mutex
	runs []string // key, token and attempt of each call of a handler
	dead []string // the keys of the dead letters
}

// process handles batches with an engine of its own.
type process struct {
	*partitions
	requests  *counted
	scheduler *schedule.Scheduler
}

func newPartitions(t *testing.T, topic ...[]string) *partitions {
	return &partitions{T: t, store: memstore.New(memstore.Config{BatchSize: 25}), topic: topic}
}

func (p *partitions) process(cfg idem.Config) *process {
	requests := &counted{Store: p.store}
	cfg.Lease, cfg.MaxAttempts, cfg.RetryDelay = rangeLease, rangeAttempts, cmp.Or(cfg.RetryDelay, -1)
	engine, err := idem.New(requests, cfg)
	if err != nil {
		p.Fatal(err)
	}
	config := schedule.Config{}
	if p.bulk {
		config.Bulk = p.handleAll
	}
	scheduler, err := schedule.New(engine, config)
	if err != nil {
		p.Fatal(err)
	}
	return &process{partitions: p, requests: requests, scheduler: scheduler}
}

func (p *partitions) byPartition() *process { return p.process(idem.Config{ClaimByPartition: true}) }

// deliver delivers the records of a partition from an offset to before another one, and returns how they
// ended.
func (p *process) deliver(ctx context.Context, partition int, from, to int) (ended string) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	items := p.items(partition, from, to)
	p.run(ctx, items, rangeOf(partition, items))
	return endsOf(items)
}

// items returns the items of the records of a partition from an offset to before another one, in one lane.
func (p *partitions) items(partition int, from, to int) (items []*schedule.Item) {
	for offset := from; offset < to; offset++ {
		key := p.topic[partition][offset]
		items = append(items, &schedule.Item{
			Lane: laneOf(partition), Range: leaseOf(partition), Position: int64(offset),
			Task: idem.Task{
				Key: key, Fingerprint: store.FingerprintOf([]byte(key)),
				Source: fmt.Sprintf("t-%d@%d", partition, offset),
				DeadLetters: idem.DeadLetterFunc(
					func(context.Context, idem.DeadLetter) error { p.letter(key); return nil }),
				Handler: idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
					a, _ := idem.AttemptFrom(ctx)
					p.ran(fmt.Sprintf("%s attempt %d", key, a.Number))
					if p.handle == nil {
						return []byte(key), nil
					}
					return []byte(key), p.handle(ctx, key)
				}),
			},
		})
	}
	return items
}

// laneOf returns the lane of a partition, and leaseOf the key of its lease.
func laneOf(partition int) string  { return fmt.Sprintf("t/%d/", partition) }
func leaseOf(partition int) string { return fmt.Sprintf("ns%%t-%d", partition) }

func rangeOf(partition int, items []*schedule.Item) schedule.Range {
	return schedule.Range{Key: leaseOf(partition), Source: items[0].Task.Source, Items: items}
}

// endsOf returns how items have ended.
func endsOf(items []*schedule.Item) (ended string) {
	for _, it := range items {
		ended += it.Outcome.Kind.String() + " "
	}
	return strings.TrimSpace(ended)
}

// run runs the items in a lane, or each in a lane of its own in calls of a bulk handler.
func (p *process) run(ctx context.Context, items []*schedule.Item, r schedule.Range) {
	lanes := [][]*schedule.Item{items}
	if p.bulk {
		lanes = unordered(items)
	}
	p.scheduler.Run(ctx, lanes, r)
}

// handleAll is a bulk handler.
func (p *partitions) handleAll(_ context.Context, items []*schedule.Item) ([]schedule.Result, error) {
	results := make([]schedule.Result, len(items))
	for i, it := range items {
		a, _ := idem.AttemptFrom(it.Context())
		p.ran(fmt.Sprintf("%s attempt %d", a.Key, a.Number))
		if results[i].Value = []byte(a.Key); p.handle != nil {
			results[i].Err = p.handle(it.Context(), a.Key)
		}
	}
	return results, nil
}

func (p *partitions) ran(call string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.runs = append(p.runs, call)
}

func (p *partitions) letter(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = append(p.dead, key)
}

func (p *partitions) wantRuns(want ...string) {
	p.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.runs, want) {
		p.Errorf("handlers were called for %q; want %q", p.runs, want)
	}
}

func (p *partitions) wantEnded(ended, want string) {
	p.Helper()
	if ended != want {
		p.Errorf("ended as %q; want %q", ended, want)
	}
}

// wantEntry checks the entry of a key: "COMPLETED 1" has the status and the attempts.
func (p *partitions) wantEntry(key, want string) store.Entry {
	p.Helper()
	entry := p.get(key)
	if got := fmt.Sprint(entry.Status, " ", entry.Attempts); got != want {
		p.Errorf("entry of %s: %s; want %s", key, got, want)
	}
	return entry
}

func (p *partitions) get(key string) store.Entry {
	p.Helper()
	entry, err := p.store.Get(p.Context(), key)
	if err != nil {
		p.Error(err)
	}
	return entry
}

// wantTill checks the position before which the keys of partition 0 are claimed.
func (p *partitions) wantTill(want int64) {
	p.Helper()
	if entry := p.get("ns%t-0"); entry.Range == nil || entry.Range.Till != want {
		p.Errorf("the lease is %+v, its range %+v; want till %d", entry, entry.Range, want)
	}
}

// counted counts requests, and fails them all once it is cut off, as those of a process that died.
type counted struct {
	*memstore.Store
	mu     sync.Mutex
	asked  []string
	cutOff atomic.Bool
	lose   func(op string) bool // whether the answer to this request is lost
	drop   func(op string) bool // whether this request is lost
}

var errCutOff = errors.New("no answer")

func (c *counted) note(op string, n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cutOff.Load() {
		return errCutOff
	}
	c.asked = append(c.asked, fmt.Sprint(op, " ", n))
	return nil
}

func (c *counted) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	if err := c.note("claim", len(reqs)); err != nil {
		return failed(len(reqs), err)
	}
	return c.Store.Claim(ctx, reqs)
}

func (c *counted) Look(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	if err := c.note("look", len(reqs)); err != nil {
		return failed(len(reqs), err)
	}
	return c.Store.Look(ctx, reqs)
}

func failed(n int, err error) []store.ClaimResult {
	results := make([]store.ClaimResult, n)
	for i := range results {
		results[i].Err = err
	}
	return results
}

func (c *counted) Settle(ctx context.Context, ss []store.Settlement) []error {
	op := ss[0].Op.String()
	err := c.note(op, len(ss))
	if err == nil && c.drop != nil && c.drop(op) {
		err = errCutOff
	}
	if err == nil {
		errs := c.Store.Settle(ctx, ss)
		if c.lose == nil || !c.lose(op) {
			return errs
		}
		err = errCutOff
	}
	return slices.Repeat([]error{err}, len(ss))
}

func (c *counted) wantAsked(t *testing.T, want ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.asked, want) {
		t.Errorf("requests: %q; want %q", c.asked, want)
	}
	c.asked = nil
}

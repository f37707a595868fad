package sqs_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
)

// A queue, of which batches are delivered until it is empty: messages with duplicates, handlers that fail, and
// answers that get lost. Whatever happens, a message leaves the queue when its key is settled, each key takes
// effect once or is a dead letter, and the messages of a FIFO group are named, and take effect, in order.
func TestQueueIsDrained(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		q := newQueue(t, rt)
		for round := 0; len(q.messages) > 0; round++ {
			if round > 200 {
				rt.Fatalf("the queue still has %v", q.messages)
			}
			q.deliver(rt)
		}
		q.check(rt)
	})
}

// queue is a queue in the state in which SQS has it.
type queue struct {
	*fixture
	messages []message
	sent     []message
	failures map[string][]error // of each key: those of its next attempts
	effects  []string           // keys
}

func newQueue(t *testing.T, rt *rapid.T) *queue {
	q := &queue{fixture: newFixture(t), failures: make(map[string][]error)}
	q.engine.MaxAttempts = 3
	name := rapid.SampledFrom([]string{standard, fifo}).Draw(rt, "queue")
	for i := range rapid.IntRange(1, 12).Draw(rt, "messages") {
		m := message{queue: name, id: fmt.Sprint(i), body: "{}",
			key: rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(rt, "key")}
		if name == fifo {
			m.group = rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "group")
		}
		q.messages = append(q.messages, m)
		if q.failures[m.key] == nil {
			q.failures[m.key] = rapid.SliceOfN(rapid.SampledFrom([]error{errBoom, idem.Permanent(errBoom), nil}),
				1, 3).Draw(rt, "outcomes")
		}
	}
	q.sent = slices.Clone(q.messages)
	q.handle = func(_ context.Context, r kafka.Record) error {
		var key string
		for value := range r.Header("idempotency-key") {
			key = string(value)
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		if left := q.failures[key]; len(left) > 0 {
			q.failures[key] = left[1:]
			if left[0] != nil {
				return left[0]
			}
		}
		q.effects = append(q.effects, key)
		return nil
	}
	return q
}

// deliver delivers a batch, and deletes what the answer does not name, unless the answer gets lost.
func (q *queue) deliver(rt *rapid.T) {
	batch := slices.Clone(q.messages[:rapid.IntRange(1, len(q.messages)).Draw(rt, "batch")])
	ids := q.fixture.deliver(batch...)
	for _, group := range []string{"", "x", "y"} {
		q.checkNames(rt, batch, ids, group)
	}
	if rapid.IntRange(0, 4).Draw(rt, "the answer is lost") == 0 {
		return
	}
	q.messages = slices.DeleteFunc(q.messages, func(m message) bool {
		delivered := slices.ContainsFunc(batch, func(d message) bool { return d.id == m.id })
		return delivered && !slices.Contains(ids, m.id)
	})
}

// checkNames checks what an answer names of a group: a part at its end, in order. Of a standard queue, it names
// those of its messages that are not settled.
func (q *queue) checkNames(rt *rapid.T, batch []message, named []string, group string) {
	var all, got []string
	for _, m := range batch {
		if m.group == group {
			all = append(all, m.id)
		}
	}
	for _, id := range named {
		if slices.Contains(all, id) {
			got = append(got, id)
		}
	}
	if group != "" && !slices.Equal(got, all[len(all)-len(got):]) {
		rt.Fatalf("of the group's messages %v the answer names %v", all, got)
	}
	for _, m := range batch {
		if m.group == group && m.queue == standard && slices.Contains(got, m.id) == q.isSettled(m.key) {
			rt.Fatalf("the answer names %v, and the key %s of %s is settled: %v", got, m.key, m.id,
				q.isSettled(m.key))
		}
	}
}

func (q *queue) isSettled(key string) bool {
	return slices.Contains(q.effects, key) || slices.ContainsFunc(q.letters,
		func(l kafka.DeadLetter) bool { return l.IdempotencyKey == stored(q.sent[0].queue, key) })
}

func stored(queue, key string) string { return "ledger#" + queue + "#" + key }

// check checks the drained queue.
func (q *queue) check(rt *rapid.T) {
	times := make(map[string]int)
	for _, key := range q.effects {
		times[key]++
	}
	for i := range q.letters {
		times[q.letters[i].IdempotencyKey[len(stored(q.sent[0].queue, "")):]]++
	}
	last := make(map[string]int) // of each group: the place of the last effect
	seen := make(map[string]bool)
	for _, m := range q.sent {
		if times[m.key] != 1 {
			rt.Fatalf("the key %s was settled %d times: effects %v, letters %v", m.key, times[m.key], q.effects,
				q.letters)
		}
		at := slices.Index(q.effects, m.key)
		if m.group == "" || seen[m.key] || at < 0 {
			continue
		}
		if seen[m.key] = true; !q.isShared(m.key) && at < last[m.group] {
			rt.Fatalf("effects %v: not in the order of the group %s", q.effects, m.group)
		}
		last[m.group] = max(last[m.group], at)
	}
}

// isShared reports whether messages of two groups have a key: its effect is then that of either.
func (q *queue) isShared(key string) bool {
	groups := make(map[string]bool)
	for _, m := range q.sent {
		if m.key == key {
			groups[m.group] = true
		}
	}
	return len(groups) > 1
}

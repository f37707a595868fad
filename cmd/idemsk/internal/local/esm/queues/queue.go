// Package queues is Lambda's event source mapping for an SQS queue: it receives messages, invokes the function
// with batches of them, and deletes those that the answer does not name. What is not deleted comes again when
// its visibility timeout ends.
package queues

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"golang.org/x/sync/errgroup"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/internal/mskevent"
)

// Parts are the parts and parameters of a mapping.
type Parts struct {
	Client    *sqs.Client
	URL, Name string // of the queue
	// Left returns how many messages are in the queue, also those that are not visible.
	Left func() int

	BatchSize int
	Window    time.Duration // the longest time to gather a batch
	Partial   bool          // ReportBatchItemFailures
	Pollers   int

	// Invoker, Observe, Faults, Drain and Cut are as in esm.Parts.
	Invoker func(ctx context.Context, poller int) (esm.Invoker, error)
	Observe func(e esm.Event)
	Faults  esm.Faults // may be nil
	Drain   <-chan struct{}
	Cut     <-chan struct{}
}

// Mapping is an event source mapping.
type Mapping struct {
	Parts

	mu      sync.Mutex
	deleted map[string]bool // by ID: a message that came again can be deleted twice
	flight  int
	batches int64
}

// New returns a mapping.
func New(p Parts) *Mapping { return &Mapping{Parts: p, deleted: make(map[string]bool)} }

// Partitions returns the progress of the queue, as that of one partition.
func (m *Mapping) Partitions() []esm.PartitionState {
	m.mu.Lock()
	defer m.mu.Unlock()
	deleted := int64(len(m.deleted))
	return []esm.PartitionState{{Poller: esm.NoPoller, Committed: deleted, End: deleted + int64(m.Left()),
		InFlight: m.flight}}
}

// Run polls and invokes until the context ends, or until Drain is closed and the queue is empty. It waits for
// the running invocations, unless Cut is closed.
func (m *Mapping) Run(ctx context.Context) error {
	invoking, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()
	var pollers []*poller
	for n := range m.Pollers {
		invoker, err := m.Invoker(ctx, n)
		if err != nil {
			return err
		}
		defer invoker.Close(context.WithoutCancel(ctx))
		pollers = append(pollers, &poller{Mapping: m, number: n, invoker: invoker})
	}
	group, polling := errgroup.WithContext(ctx)
	for _, p := range pollers {
		group.Go(func() error { return p.run(polling, invoking) })
	}
	over := make(chan struct{})
	go func() {
		select {
		case <-m.Cut:
			abort()
		case <-over:
		}
	}()
	defer close(over)
	return group.Wait()
}

// drained reports whether nothing is left, and nothing will come.
func (m *Mapping) drained() bool {
	select {
	case <-m.Drain: // a nil channel is never closed
		return m.Left() == 0
	default:
		return false
	}
}

// poller receives and invokes, one batch after another.
type poller struct {
	*Mapping
	number  int
	invoker esm.Invoker
}

func (p *poller) run(ctx, invoking context.Context) error {
	for ctx.Err() == nil && !p.drained() {
		batch, err := p.receive(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // the request was cancelled
			}
			return fmt.Errorf("receiving from the queue %s: %w", p.Name, err)
		}
		if len(batch) == 0 {
			continue
		}
		for left := batch; len(left) > 0; {
			n := fitting(p.Name, left)
			all, err := p.handle(invoking, left[:n])
			if err != nil {
				return err
			}
			if left = left[n:]; !all { // what is behind a message that failed may be of its group: it comes again
				break
			}
		}
	}
	return nil
}

// fitting returns how many of the messages an event has room for: at least one, which SQS bounds.
func fitting(queue string, messages []types.Message) (n int) {
	size := len(event(queue, nil))
	for n < len(messages) {
		size += len(event(queue, messages[n:n+1]))
		if size > esm.MaxPayload {
			break
		}
		n++
	}
	return max(1, n)
}

const (
	mostReceived = 10              // messages of a request
	longPoll     = 1               // seconds
	pause        = 1 * time.Second // after an invocation that could not be made
)

// receive gathers a batch for at most the window. It has no messages if there are none.
func (p *poller) receive(ctx context.Context) (batch []types.Message, err error) {
	until := time.Now().Add(p.Window)
	for len(batch) < p.BatchSize {
		in := &sqs.ReceiveMessageInput{
			QueueUrl: &p.URL, MaxNumberOfMessages: int32(min(mostReceived, p.BatchSize-len(batch))),
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
			MessageAttributeNames:       []string{"All"},
		}
		if len(batch) == 0 {
			in.WaitTimeSeconds = longPoll
		}
		out, err := p.Client.ReceiveMessage(ctx, in)
		if err != nil {
			return nil, err
		}
		batch = append(batch, out.Messages...)
		if len(out.Messages) == 0 || time.Now().After(until) {
			break
		}
	}
	return batch, nil
}

// handle delivers a batch, more than once if a fault says so, and deletes what is done. It reports whether that is
// the whole batch.
func (p *poller) handle(ctx context.Context, batch []types.Message) (all bool, err error) {
	p.mu.Lock()
	p.flight += len(batch)
	p.batches++
	inv := &esm.Invocation{Poller: p.number, Number: 1, Records: len(batch),
		Batch: fmt.Sprintf("%s, batch %d", p.Name, p.batches),
		First: mskevent.Place{Partition: p.Name, Offset: p.batches}}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.flight -= len(batch)
		p.mu.Unlock()
	}()
	inv.Payload = event(p.Name, batch)
	done, err := p.invoke(ctx, inv, batch)
	if err == nil && len(done) > 0 && p.Faults != nil && p.Faults.Again(inv.First) {
		p.observe(inv, esm.Event{Kind: esm.Redelivered, Records: len(batch)})
		inv.Number++
		done, err = p.invoke(ctx, inv, batch)
	}
	if err != nil || len(done) == 0 {
		return false, err
	}
	p.remove(ctx, inv, done)
	return len(done) == len(batch), nil
}

// invoke makes an invocation, and returns the messages that are done.
func (p *poller) invoke(ctx context.Context, inv *esm.Invocation, batch []types.Message) ([]types.Message,
	error) {
	begun := time.Now()
	answer, err := p.invoker.Invoke(ctx, inv)
	var away *esm.UnavailableError
	switch {
	case errors.As(err, &away):
		p.observe(inv, esm.Event{Kind: esm.Unavailable, Err: err})
		esm.Wait(ctx, pause)
		return nil, nil
	case ctx.Err() != nil:
		return nil, nil //nolint:nilerr // aborted: the messages come again
	case err != nil:
		return nil, err
	}
	e := esm.Event{Kind: esm.Invoked, Records: inv.Records, Bytes: len(inv.Payload), Duration: time.Since(begun),
		Injected: answer.Injected, Answer: answer.Payload}
	if answer.FunctionError != "" {
		e.Err = errors.New(answer.Message)
	}
	p.observe(inv, e)
	if e.Err != nil {
		return nil, nil //nolint:nilerr // it was observed: the messages come again
	}
	return p.read(inv, answer.Payload, batch), nil
}

// read returns the messages that are done according to an answer. Without ReportBatchItemFailures these are
// all, also those that it names.
func (p *poller) read(inv *esm.Invocation, answer []byte, batch []types.Message) (done []types.Message) {
	named, err := failures(answer, batch)
	switch {
	case !p.Partial && len(named) > 0:
		p.observe(inv, esm.Event{Kind: esm.Ignored, Records: len(named)})
		return batch
	case !p.Partial:
		return batch
	case err != nil:
		p.observe(inv, esm.Event{Kind: esm.Misanswered, Records: len(batch), Err: err})
		return nil
	case len(named) > 0:
		p.observe(inv, esm.Event{Kind: esm.Named, Records: len(named)})
	}
	for _, m := range batch {
		if !named[*m.MessageId] {
			done = append(done, m)
		}
	}
	return done
}

// remove deletes messages. One that can't be deleted comes again.
func (p *poller) remove(ctx context.Context, inv *esm.Invocation, done []types.Message) {
	var deleted []string
	for _, m := range done {
		_, err := p.Client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &p.URL,
			ReceiptHandle: m.ReceiptHandle})
		if err != nil {
			p.observe(inv, esm.Event{Kind: esm.Unavailable,
				Err: fmt.Errorf("deleting the message %s: %w", *m.MessageId, err)})
			continue
		}
		deleted = append(deleted, *m.MessageId)
	}
	p.mu.Lock()
	before := len(p.deleted)
	for _, id := range deleted {
		p.deleted[id] = true
	}
	n := len(p.deleted) - before
	p.mu.Unlock()
	p.observe(inv, esm.Event{Kind: esm.Committed, Records: n})
}

func (p *poller) observe(inv *esm.Invocation, e esm.Event) {
	e.Poller, e.Batch = p.number, inv.Batch
	p.Observe(e)
}

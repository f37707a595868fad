package kafka

import (
	"context"
	"sync"
	"time"

	"github.com/idemsk/idemsk/idem"
)

// PrepareTime is the time after which the context of key and fingerprint functions ends, for the records of
// one partition that arrive together. In a batch with a deadline it ends at the latest after a quarter of the
// time that is left. A record that cannot be identified until then is retried.
const PrepareTime = 3 * time.Second

// prepareContext returns the context in which records are prepared.
func prepareContext(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := PrepareTime
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline)/4)
	}
	return context.WithTimeout(ctx, limit)
}

// preparation prepares the records of a stream, those of a partition in their order, and those of different
// partitions at once: a schema registry that does not answer for one partition stops no other. Each partition
// with records that are not prepared has a goroutine.
type preparation struct {
	ctx     context.Context // of the stream
	prepare func(context.Context, *streamMessage)
	ready   func([]*idem.Item) // takes prepared records

	mu         sync.Mutex
	partitions map[string]*preparing // by the prefix of their lanes
	closed     bool
	goroutines sync.WaitGroup
}

// preparing has the records of a partition that are to be prepared.
type preparing struct {
	ctx    context.Context
	stop   context.CancelFunc
	groups [][]*streamMessage // each was added by one call
}

// streamMessage is a record of a stream: one allocation, which lives until the record is done.
type streamMessage struct {
	Message
	record Record
}

// add takes records of a partition. It returns at once.
func (p *preparation) add(partition string, group []*streamMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	of := p.partitions[partition]
	if of == nil {
		of = &preparing{}
		of.ctx, of.stop = context.WithCancel(p.ctx)
		p.partitions[partition] = of
		p.goroutines.Go(func() { p.run(partition, of) })
	}
	of.groups = append(of.groups, group)
}

// run prepares the records of a partition until there are none left.
func (p *preparation) run(partition string, of *preparing) {
	defer of.stop()
	for group := p.next(partition, of); group != nil; group = p.next(partition, of) {
		ctx, cancel := prepareContext(of.ctx)
		items := make([]*idem.Item, len(group))
		for i, m := range group {
			if of.ctx.Err() != nil {
				break
			}
			p.prepare(ctx, m)
			items[i] = &m.Item
		}
		cancel()
		p.finish(of, items)
	}
}

// next returns the records to prepare next. It returns nil, and ends the partition's preparation, if there
// are none.
func (p *preparation) next(partition string, of *preparing) (group []*streamMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case of.ctx.Err() != nil: // stopped; the partition may be prepared anew by now
	case len(of.groups) == 0:
		delete(p.partitions, partition)
	default:
		group, of.groups = of.groups[0], of.groups[1:]
	}
	return group
}

// finish passes prepared records on, unless their partition was stopped meanwhile.
func (p *preparation) finish(of *preparing, items []*idem.Item) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if of.ctx.Err() == nil {
		p.ready(items)
	}
}

// revoke removes the records of a partition that are not prepared. When it has returned, none of them is
// passed on.
func (p *preparation) revoke(partition string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(partition)
}

// remove stops the preparation of a partition. The caller has the lock.
func (p *preparation) remove(partition string) {
	if of := p.partitions[partition]; of != nil {
		of.stop()
		delete(p.partitions, partition)
	}
}

// close removes the records of all partitions.
func (p *preparation) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for partition := range p.partitions {
		p.remove(partition)
	}
}

// wait waits until ctx ends for the functions that prepare records.
func (p *preparation) wait(ctx context.Context) {
	ended := make(chan struct{})
	go func() {
		p.goroutines.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

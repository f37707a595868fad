package esm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/internal/mskevent"
)

// poller reads some partitions and processes one batch at a time.
type poller struct {
	m       *ESM
	number  int
	invoker Invoker
	feed    batches
	client  *kgo.Client // nil for recorded events
}

func (p *poller) close(ctx context.Context) {
	p.invoker.Close(ctx)
	if p.client != nil {
		p.client.Close()
	}
}

// run delivers batches until stop ends. The current batch then continues until work ends.
func (p *poller) run(stop, work context.Context) error {
	for stop.Err() == nil {
		while, done, on := p.m.toggle.while(stop)
		if !on {
			return nil
		}
		b, err := p.feed.next(while)
		done()
		if err != nil {
			return err
		}
		if b == nil {
			continue
		}
		if err := p.settle(stop, work, b); err != nil {
			return err
		}
	}
	return nil
}

// settle delivers a batch until it is finished or the mapping stops, and commits the offsets of the finished
// records.
func (p *poller) settle(stop, work context.Context, b *batch) error {
	p.observeBatch(b, Event{Kind: Filtered, Records: b.filtered}, b.filtered > 0)
	p.m.track(b.records, 1)
	defer p.m.track(b.records, -1)
	rest, err := p.once(stop, work, b)
	if err == nil && len(rest) == 0 && p.again(b) {
		p.observeBatch(b, Event{Kind: Redelivered, Records: len(b.records)}, true)
		rest, err = p.deliver(stop, work, b)
	}
	if commitErr := p.m.commit(context.WithoutCancel(work), b.doneUntil(rest)); commitErr != nil {
		return errors.Join(err, commitErr)
	}
	p.observeBatch(b, Event{Kind: Committed, Records: b.done()}, len(rest) == 0)
	return err
}

// once gives up the records that are invalid or too large, and delivers the others.
func (p *poller) once(stop, work context.Context, b *batch) (rest []delivery, err error) {
	given := map[string][]Record{PayloadTooLarge: b.tooLarge}
	maps.Copy(given, b.invalid)
	for _, condition := range slices.Sorted(maps.Keys(given)) {
		if err := p.giveUp(work, b, condition, &delivery{}, given[condition]); err != nil {
			return []delivery{{records: slices.Concat(slices.Collect(maps.Values(given))...)},
				{records: b.records}}, err
		}
	}
	return p.deliver(stop, work, b)
}

func (p *poller) again(b *batch) bool {
	return p.m.parts.Faults != nil && b.delivered() && p.m.parts.Faults.Again(b.first())
}

// deliver invokes the function until all records of the batch are finished, or stop ends, and returns the
// remaining records. While the mapping is disabled, it waits and does not retry.
func (p *poller) deliver(stop, work context.Context, b *batch) (rest []delivery, err error) {
	if !b.delivered() {
		return nil, nil
	}
	rest = []delivery{{records: b.records}}
	for n := 1; len(rest) > 0; n++ {
		if _, on := p.m.toggle.wait(stop); !on {
			return rest, nil
		}
		again, err := p.step(work, b, &rest[0], n)
		if unavailable := (*UnavailableError)(nil); errors.As(err, &unavailable) {
			p.observeBatch(b, Event{Kind: Unavailable, Records: len(rest[0].records), Err: err}, true)
			Wait(stop, p.m.config.delay(n))
			continue
		}
		if err != nil {
			if stop.Err() != nil && work.Err() != nil {
				return rest, nil //nolint:nilerr // the invocation was aborted, because the mapping stops
			}
			return rest, err
		}
		rest = append(again, rest[1:]...)
		if len(again) == 1 { // the halves of a batch that was split are delivered without a delay
			Wait(stop, p.m.config.delay(max(1, again[0].retries)))
		}
	}
	return rest, nil
}

// step invokes the function once with the records of d that are not too old, and returns the deliveries that
// remain.
func (p *poller) step(ctx context.Context, b *batch, d *delivery, n int) (again []delivery, err error) {
	young, old := p.m.config.tooOld(d.records, time.Now())
	if err := p.giveUp(ctx, b, RecordAgeExceeded, d, old); err != nil || len(young) == 0 && len(old) > 0 {
		return nil, err
	}
	d.records = young
	failed, err := p.invoke(ctx, b, d, n)
	if err != nil {
		return nil, err
	}
	v := p.m.config.judge(d, failed, d.last.FunctionError != "")
	p.observeBatch(b, Event{Kind: Bisected, Records: len(failed)}, v.bisected)
	if err := p.giveUp(ctx, b, RetryAttemptsExhausted, d, v.lost); err != nil {
		return nil, err
	}
	return v.again, nil
}

// invoke invokes the function, stores its answer in d and returns the records that failed.
func (p *poller) invoke(ctx context.Context, b *batch, d *delivery, n int) (failed []Record, err error) {
	inv := &Invocation{
		Poller: p.number, Batch: b.name(), First: b.first(), Number: n,
		Records: len(d.records), Delivered: d.records, Payload: b.payload(d.records),
	}
	begun := time.Now()
	answer, err := p.invoker.Invoke(ctx, inv)
	if err != nil {
		return nil, err
	}
	d.invocations++
	d.last = answer
	e := Event{Kind: Invoked, Records: inv.Records, Bytes: len(inv.Payload), Duration: time.Since(begun),
		Injected: answer.Injected, Answer: answer.Payload}
	if answer.FunctionError != "" {
		e.Err = errors.New(answer.Message)
	}
	p.observeBatch(b, e, true)
	if answer.FunctionError != "" {
		return d.records, nil
	}
	return p.read(b, d), nil
}

// read returns the records that failed according to the function's answer.
func (p *poller) read(b *batch, d *delivery) (failed []Record) {
	sent := sync.OnceValue(d.places) // most answers name no record
	named, _, err := mskevent.Failures(d.last.Payload, func(at mskevent.Place) bool { return sent()[at] })
	if !p.m.config.partial() { // any answer is a success, as on AWS: the named records are lost
		fresh := b.giveUp(pick(d.records, named))
		p.observeBatch(b, Event{Kind: Ignored, Records: fresh}, fresh > 0)
		return nil
	}
	if err != nil {
		p.observeBatch(b, Event{Kind: Misanswered, Records: len(d.records), Err: err}, true)
		return d.records
	}
	p.observeBatch(b, Event{Kind: Named, Records: len(named)}, len(named) > 0)
	return p.m.config.retried(d.records, named)
}

// places returns the places of the records of a delivery.
func (d *delivery) places() map[mskevent.Place]bool {
	all := make(map[mskevent.Place]bool, len(d.records))
	for i := range d.records {
		all[d.records[i].Place()] = true
	}
	return all
}

// sendAttempts is the number of attempts to send to the on-failure destination. If all fail, the mapping
// ends, so that no record is lost.
const sendAttempts = 4

// giveUp sends records that are given up to the on-failure destination, if there is one.
func (p *poller) giveUp(ctx context.Context, b *batch, condition string, d *delivery,
	records []Record) error {
	if len(records) == 0 {
		return nil
	}
	destination := p.m.parts.Destination
	if destination != nil {
		f := p.m.failure(condition, b, d, records)
		var err error
		for n := 1; n <= sendAttempts; n++ {
			if err = destination.Send(ctx, f); err == nil || ctx.Err() != nil {
				break
			}
			Wait(ctx, p.m.config.delay(n))
		}
		if err != nil {
			return fmt.Errorf("%s rejected %d records that are given up, from %s on: %w", destination,
				len(records), records[0].Place(), err)
		}
	}
	fresh := b.giveUp(records)
	p.observeBatch(b, Event{Kind: GivenUp, Records: fresh, Condition: condition, Sent: destination != nil},
		fresh > 0)
	return nil
}

// giveUp notes that records were given up, and returns how many of them were not given up before: a fault can
// redeliver a batch.
func (b *batch) giveUp(records []Record) (fresh int) {
	if len(records) == 0 {
		return 0
	}
	if b.givenUp == nil {
		b.givenUp = make(map[mskevent.Place]bool, len(records))
	}
	before := len(b.givenUp)
	for i := range records {
		b.givenUp[records[i].Place()] = true
	}
	return len(b.givenUp) - before
}

// done returns the number of records that were not given up.
func (b *batch) done() int {
	n := len(b.records)
	if len(b.givenUp) == 0 {
		return n
	}
	for i := range b.records {
		if b.givenUp[b.records[i].Place()] {
			n--
		}
	}
	return n
}

// observeBatch reports an event of a batch to the observer if ifSo is true.
func (p *poller) observeBatch(b *batch, e Event, ifSo bool) {
	if ifSo {
		e.Poller, e.Batch = p.number, b.name()
		p.m.observe(e)
	}
}

// delivered reports whether the function gets the batch. A gathered batch may have no records.
func (b *batch) delivered() bool { return b.event != nil || len(b.records) > 0 }

// doneUntil returns the offsets up to the first remaining record. A recorded event is finished when no record
// of it remains.
func (b *batch) doneUntil(rest []delivery) offsets {
	if b.event != nil && len(rest) > 0 {
		return nil
	}
	return b.ends.unless(rest)
}

// first returns the place of the first record; for an event without records, its name.
func (b *batch) first() mskevent.Place {
	if len(b.records) == 0 {
		return mskevent.Place{Partition: b.name()}
	}
	return b.records[0].Place()
}

// name returns the name of the event, or the batch's first record and the number of records after it.
func (b *batch) name() string {
	switch {
	case b.event != nil:
		return b.event.Name
	case len(b.records) == 0:
		return "no records"
	}
	return fmt.Sprintf("%s+%d", b.records[0].Place(), len(b.records)-1)
}

// Wait waits for a duration, or until the context ends.
func Wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

package kafka

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/idemsk/idemsk/idem"
)

// Processor processes records with an engine. It is safe for concurrent use. A process should have one.
type Processor struct {
	engine    *idem.Engine
	each      HandlerFunc  // nil if many is set
	many      BulkAttempts // nil if each is set
	cfg       Config
	scheduler *idem.Scheduler
}

// NewProcessor returns a processor. It returns idem.ErrInvalidConfig (wrapped), which names every invalid
// field.
func NewProcessor(engine *idem.Engine, handler Handler, cfg Config) (*Processor, error) {
	if engine == nil || handler == nil || handler.each() == nil && handler.many() == nil {
		return nil, fmt.Errorf("kafka: %w: the engine or the handler is nil", idem.ErrInvalidConfig)
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if engine.Config().AtMostOnce && cfg.DeadLetters == nil {
		return nil, fmt.Errorf("kafka: %w: the engine's AtMostOnce without DeadLetters: "+
			"a record whose outcome is unknown needs a dead letter", idem.ErrInvalidConfig)
	}
	p := &Processor{engine: engine, each: handler.each(), many: handler.many(), cfg: cfg}
	rules := idem.SchedulerConfig{Concurrency: cfg.Concurrency}
	if p.many != nil {
		rules.Bulk, rules.Concurrency, rules.CallItems = p.bulk, cfg.Calls, cfg.CallRecords
	}
	var err error
	if p.scheduler, err = idem.NewScheduler(engine, rules); err != nil {
		return nil, err
	}
	return p, nil
}

// Batch is a set of records that were processed together.
type Batch struct {
	// Partitions has the records of each partition, in their order.
	Partitions [][]Message
	// Overruns has the messages whose handlers had not returned when the time ended. If there are any, the
	// process must end.
	Overruns []*Message

	processor *Processor
	began     time.Time
	calls     failedCalls
}

// Messages returns the messages of all partitions.
func (b *Batch) Messages() iter.Seq[*Message] {
	return func(yield func(*Message) bool) {
		for _, messages := range b.Partitions {
			for i := range messages {
				if !yield(&messages[i]) {
					return
				}
			}
		}
	}
}

// Run processes the records of several partitions of a cluster, each in the order of its offsets, and returns
// before ctx's deadline.
func (p *Processor) Run(ctx context.Context, cluster string, partitions [][]Record) *Batch {
	end := func(*Batch) {}
	if p.cfg.Batch != nil {
		ctx, end = p.cfg.Batch(ctx, partitions)
	}
	b := p.prepare(ctx, cluster, partitions)
	defer end(b)
	p.scheduler.Run(context.WithValue(ctx, callsKey{}, &b.calls), b.lanes())
	for m := range b.Messages() {
		if m.State == idem.ItemOverrun {
			b.Overruns = append(b.Overruns, m)
		}
		m.explain()
		if observer := p.engine.Config().Observer; observer != nil {
			observer.Observe(ctx, m.end(b.began))
		}
	}
	return b
}

// prepare identifies the records, those of different partitions at once.
func (p *Processor) prepare(ctx context.Context, cluster string, partitions [][]Record) *Batch {
	b := &Batch{processor: p, began: time.Now(), Partitions: make([][]Message, len(partitions))}
	ctx, cancel := prepareContext(ctx)
	defer cancel()
	var all sync.WaitGroup
	for i, records := range partitions {
		messages := make([]Message, len(records))
		b.Partitions[i] = messages
		all.Go(func() {
			for r := range records {
				messages[r].prepare(ctx, p, &records[r], cluster)
			}
		})
	}
	all.Wait()
	return b
}

// itemsOf returns the items of messages.
func itemsOf(messages []Message) []*idem.Item {
	items := make([]*idem.Item, len(messages))
	for i := range messages {
		items[i] = &messages[i].Item
	}
	return items
}

// lanes arranges the messages in lanes according to Config.Order.
func (b *Batch) lanes() (lanes [][]*idem.Item) {
	for _, messages := range b.Partitions {
		switch b.processor.cfg.Order {
		case DefaultOrder, ByPartition:
			lanes = append(lanes, itemsOf(messages))
		case ByKey:
			lanes = lanesByKey(lanes, messages)
		case Unordered:
			for lane := range slices.Chunk(itemsOf(messages), 1) {
				lanes = append(lanes, lane)
			}
		}
	}
	return lanes
}

// lanesByKey adds a lane for each Kafka key of a partition, and for each record without one.
func lanesByKey(lanes [][]*idem.Item, messages []Message) [][]*idem.Item {
	byKey := make(map[string]int, len(messages))
	for i := range messages {
		m := &messages[i]
		key := m.Record.Key
		if lane, ok := byKey[string(key)]; ok && key != nil {
			lanes[lane] = append(lanes[lane], &m.Item)
			continue
		}
		if key != nil {
			byKey[string(key)] = len(lanes)
		}
		lanes = append(lanes, []*idem.Item{&m.Item})
	}
	return lanes
}

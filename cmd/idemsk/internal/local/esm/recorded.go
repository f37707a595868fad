package esm

import (
	"context"

	"github.com/idemsk/idemsk/internal/mskevent"
)

// recorded returns recorded events as batches, unchanged and one after another.
type recorded struct {
	events []*mskevent.Event
	given  int
}

// next returns the next event. After the last one it waits until the context ends.
func (f *recorded) next(ctx context.Context) (*batch, error) {
	if f.given == len(f.events) {
		<-ctx.Done()
		return nil, nil //nolint:nilnil // no batch is no error
	}
	e := f.events[f.given]
	f.given++
	b := &batch{event: e, envelope: e.Envelope, ends: offsets{0: int64(f.given)}}
	for _, r := range e.Records {
		b.records = append(b.records, recordedRecord(r))
	}
	return b, nil
}

// openRecorded creates the poller of recorded events. There is one, because they are delivered in order.
// Their progress is that of a partition with an offset for each event.
func (m *ESM) openRecorded(ctx context.Context) error {
	invoker, err := m.parts.Invoker(ctx, 0)
	if err != nil {
		return err
	}
	m.pollers = append(m.pollers, &poller{m: m, invoker: invoker, feed: &recorded{events: m.config.Events}})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.states[0] = &PartitionState{End: int64(len(m.config.Events))}
	return nil
}

package dynamooutbox_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/dynamooutbox"
	"github.com/idemsk/idemsk/outbox/relay"
)

// fickle is a Sender that fails as rapid draws and records the published events. It rejects poison events,
// mostly.
type fickle struct {
	t      *rapid.T
	poison map[string]bool
	dead   bool // the process died during Send: the following events are not sent
	log    []outbox.Event
}

// Send implements dynamooutbox.Sender.
func (f *fickle) Send(_ context.Context, events []outbox.Event) []error {
	errs := make([]error, len(events))
	blocked := make(map[string]bool)
	for i, e := range events {
		f.dead = f.dead || rapid.IntRange(0, 40).Draw(f.t, "dies") == 0
		switch fate := rapid.IntRange(0, 20).Draw(f.t, "fate"); {
		case blocked[string(e.Key)]:
			errs[i] = relay.ErrHeldBack
			continue
		case f.dead:
			errs[i] = relay.ErrUnavailable
		case f.poison[e.ID] && rapid.IntRange(0, 9).Draw(f.t, "fixed") > 0, fate == 0:
			// sometimes the topic accepts it
			errs[i] = relay.ErrRejected
		case fate == 1:
			errs[i] = relay.ErrUnavailable
		default:
			f.log = append(f.log, e)
			if fate == 2 { // published, but the answer is lost
				errs[i] = relay.ErrUnavailable
			}
		}
		blocked[string(e.Key)] = errs[i] != nil && e.Key != nil
	}
	return errs
}

// shard is a shard of a stream. It is delivered as Lambda does: again from the first reported item, as a
// whole after the death of the process, and in batches of any size.
type shard struct {
	*rapid.T
	items []dynamooutbox.Item
	kafka *fickle
	table *table
	relay *dynamooutbox.Relay
}

func (s *shard) deliver() {
	for at, deliveries := 0, 0; at < len(s.items); deliveries++ {
		if deliveries > 1000 {
			s.Fatal("there is no end to it")
		}
		batch := s.items[at:min(len(s.items), at+rapid.IntRange(1, 8).Draw(s.T, "batch"))]
		s.kafka.dead = false
		res := s.relay.Send(context.Background(), batch)
		if s.kafka.dead {
			continue
		}
		if which := failed(res); len(which) > 0 {
			at += which[0]
		} else {
			at += len(batch)
		}
	}
}

// Whatever fails and whenever the relay dies, every event is published or parked, and the first record of
// each event comes after the first record of the previous event of its key, even if one was parked in
// between.
func TestNoneIsLostAndOrderIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := shard{T: t, kafka: &fickle{t: t, poison: make(map[string]bool)}, table: &table{}}
		s.table.dead = &s.kafka.dead
		box, err := dynamooutbox.New(dynamooutbox.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if s.relay, err = dynamooutbox.NewRelay(box, s.table, s.kafka, dynamooutbox.RelayConfig{
			MaxAttempts: 2, RetryDelay: time.Nanosecond, MaxRetryDelay: time.Nanosecond, Logger: discard(),
		}); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for range rapid.IntRange(1, 20).Draw(t, "items") {
			var values []string
			for range rapid.IntRange(1, 3).Draw(t, "events") {
				id := fmt.Sprintf("%04d", len(ids))
				ids, values = append(ids, id), append(values, id)
				s.kafka.poison[id] = rapid.IntRange(0, 9).Draw(t, "poison") == 0
			}
			s.items = append(s.items, item(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key"),
				values...))
		}
		s.deliver()
		first, last := make(map[string]bool), make(map[string]string)
		for _, e := range s.kafka.log {
			if first[e.ID] {
				continue
			}
			first[e.ID] = true
			if of := string(e.Key); e.ID < last[of] {
				t.Errorf("of key %s, %s comes behind %s", of, e.ID, last[of])
			} else {
				last[of] = e.ID
			}
		}
		for _, id := range ids {
			parked := slices.Contains(s.table.parked, id)
			if !first[id] && !parked {
				t.Errorf("event %s, poison %v, is neither published nor parked", id, s.kafka.poison[id])
			}
		}
	})
}

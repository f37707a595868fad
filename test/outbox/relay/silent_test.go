package relay_test

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/relay"
)

// A topic that can't be written to for a while, in the first wave or in a later one, costs the other topics one
// timeout. Its events are unavailable, those behind them are held back, and all are sent when it can be.
func TestOneTopicIsUnavailable(t *testing.T) {
	for _, why := range []*kerr.Error{kerr.NotEnoughReplicas, kerr.LeaderNotAvailable, kerr.NotLeaderForPartition} {
		for name, before := range map[string]int{"first wave": 0, "later wave": 40} {
			t.Run(why.Message+", "+name, func(t *testing.T) {
				t.Parallel()
				c := newCluster(t)
				p := newProducer(t, c, time.Second)
				fault := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: one, Err: why, Count: -1})
				var events []outbox.Event
				for n := range before {
					events = append(events, event(many, "", n, 100_000)) // ten in a wave
				}
				events = append(events, event(one, "k", 0, 10))
				for n := range 100 {
					events = append(events, event(many, "", n, 100_000))
				}
				events = append(events, event(one, "k", 1, 10), event(one, "l", 2, 10))
				begun := time.Now()
				for i, err := range p.Send(t.Context(), events) {
					want := error(nil)
					switch {
					case i == before, i == len(events)-1:
						want = relay.ErrUnavailable
					case i == len(events)-2:
						want = relay.ErrHeldBack
					}
					if !errors.Is(err, want) {
						t.Errorf("event %d: %v; want %v", i, err, want)
					}
				}
				if took := time.Since(begun); took > soon {
					t.Errorf("it took %v", took)
				}
				fault.Remove()
				for i, err := range p.Send(t.Context(), []outbox.Event{events[before], events[len(events)-2]}) {
					if err != nil {
						t.Errorf("afterwards, event %d: %v", i, err)
					}
				}
			})
		}
	}
}

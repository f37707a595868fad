//go:build rest && !race

package simulation_test

import (
	"reflect"
	"strings"
	"testing"
)

// Compiling the machine takes too long for go test without a tag, and many minutes with the race detector.

// A scenario with an order has the same events at each run, on the event source and with a group. Another
// order has others.
func TestOrderIsRepeatedExactly(t *testing.T) {
	m := newMachine(t)
	for name, text := range map[string]string{"event source": "copies=same partition,failures=temporary",
		"group": "host=process,copies=same partition"} {
		t.Run(name, func(t *testing.T) {
			s := scenario{Seed: 1, order: 1, Config: configOf(t, text)}
			first := m.run(t, s)
			if again := m.run(t, s); !reflect.DeepEqual(first, again) || first.Steps == 0 {
				t.Errorf("seed %d has %d events, and then %d others", s.Seed, len(first.Trace),
					len(again.Trace))
			}
			s.order = 2
			if other := m.run(t, s); reflect.DeepEqual(first.Trace, other.Trace) {
				t.Error("two orders have the same events")
			}
		})
	}
	t.Run("violation", func(t *testing.T) {
		s, res, found := inSomeOrder(t, m,
			scenario{Seed: 3, Config: configOf(t, "IDEMSK_ORDER=key,copies=same partition,effects=enlisted"),
				Careless: true})
		if again := m.run(t, s); !found || !strings.Contains(res.Violation, `is booked "1" times`) ||
			again.Violation != res.Violation {
			t.Errorf("%s: %q, and then %q", s.command(), res.Violation, again.Violation)
		}
	})
}

package storetest_test

import (
	"testing"

	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/storetest"
)

// The test of a new store: Run checks the rules on a harness, which gives the suite a clock, lost replies and
// the stored bytes. The complete harness of memstore is in its tests.
func Example() {
	_ = func(t *testing.T) { // func TestRules(t *testing.T)
		storetest.Run(t, func(*testing.T) storetest.Harness {
			clock := storetest.NewClock()
			st := memstore.New(memstore.Config{Clock: clock.Now}) // the new store
			// loses replies; a store with a client loses them on the network
			resender := &storetest.Resender{Store: st, Admin: st}
			return storetest.Harness{
				Store: resender, Now: clock.Now, Advance: clock.Advance, LoseReply: resender.Arm,
				Sweep: func(testing.TB) { st.Sweep() },
				Raw:   nil, // the bytes stored under a key
			}
		})
	}
}

package schedule_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/schedule"
)

// A delivery that comes before the delay of its key has passed sends one claim, and one more if it can wait
// for the end of the delay.
func TestDeliveryBeforeTheDelayHasPassed(t *testing.T) {
	for name, tc := range map[string]struct {
		wait   time.Duration
		ended  string
		claims int
	}{
		"does not wait": {-1, "InFlight", 1},
		"waits":         {0, "Executed", 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPartitions(t, []string{"a"})
				calls := 0
				p.handle = func(context.Context, string) error {
					if calls++; calls == 1 {
						return errBoom
					}
					return nil
				}
				process := p.process(idem.Config{RetryDelay: 10 * time.Second, Wait: tc.wait})
				deliver := func() string {
					items := process.items(0, 0, 1)
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					process.scheduler.Run(ctx, [][]*schedule.Item{items})
					return endsOf(items)
				}
				equal(t, "the first delivery", deliver(), "Retry")
				process.requests.asked = nil
				equal(t, "the second one", deliver(), tc.ended)
				claims := 0
				for _, op := range process.requests.asked {
					if op == "claim 1" {
						claims++
					}
				}
				equal(t, "claims", claims, tc.claims)
			})
		})
	}
}

package schedule_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/schedule"
)

// A delivery that comes before the delay of its key has passed sends one claim, and one more if it can wait
// for the end of the delay. One that was sent while an earlier item was handled is not sent again.
func TestDeliveryBeforeTheDelayHasPassed(t *testing.T) {
	for name, tc := range map[string]struct {
		from   int
		wait   time.Duration
		ended  string
		claims string
	}{
		"does not wait":                      {1, -1, "InFlight", "claim 1"},
		"waits":                              {1, 0, "Executed", "claim 1, claim 1"},
		"behind another item, does not wait": {0, -1, "Replayed InFlight", "claim 2"},
		"behind another item, waits":         {0, 0, "Replayed Executed", "claim 2, claim 1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPartitions(t, []string{"another", "a"})
				failed := false
				p.handle = func(_ context.Context, key string) error {
					if key == "a" && !failed {
						failed = true
						return errBoom
					}
					return nil
				}
				process := p.process(idem.Config{RetryDelay: 10 * time.Second, Wait: tc.wait})
				deliver := func() string {
					items := process.items(0, tc.from, 2)
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					process.scheduler.Run(ctx, [][]*schedule.Item{items})
					return endsOf(items)
				}
				if ended := deliver(); !strings.HasSuffix(ended, "Retry") {
					t.Errorf("the first delivery: %s", ended)
				}
				process.requests.asked = nil
				equal(t, "the second one", deliver(), tc.ended)
				claims := slices.DeleteFunc(process.requests.asked,
					func(op string) bool { return !strings.HasPrefix(op, "claim ") })
				equal(t, "claims", strings.Join(claims, ", "), tc.claims)
			})
		})
	}
}

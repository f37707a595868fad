package idem_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
)

// A delivery that comes before the delay of its key has passed sends one claim, and one more if it can wait
// for the end of the delay. One that was sent while an earlier item was handled is not sent again.
func TestDeliveryBeforeTheDelayHasPassed(t *testing.T) {
	for name, tc := range map[string]struct {
		keys   []string
		wait   time.Duration
		ended  string
		claims string // the keys in each request
	}{
		"does not wait":                      {[]string{"a"}, -1, "[InFlight]", "[1]"},
		"waits":                              {[]string{"a"}, 0, "[Executed]", "[1 1]"},
		"behind another item, does not wait": {[]string{"another", "a"}, -1, "[Replayed InFlight]", "[2]"},
		"behind another item, waits":         {[]string{"another", "a"}, 0, "[Replayed Executed]", "[2 1]"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &claimCounter{Store: memstore.New(memstore.Config{BatchSize: 25})}
				engine, err := idem.New(st, idem.Config{RetryDelay: 10 * time.Second, Wait: tc.wait})
				if err != nil {
					t.Fatal(err)
				}
				scheduler, err := idem.NewScheduler(engine, idem.SchedulerConfig{})
				if err != nil {
					t.Fatal(err)
				}
				failed := false
				deliver := func() (ended []string) {
					items := (&fixture{}).items(tc.keys...)
					last := items[len(items)-1]
					last.Task.Handler = idem.HandlerFunc(func(context.Context) ([]byte, error) {
						if failed {
							return nil, nil
						}
						failed = true
						return nil, errBoom
					})
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					scheduler.Run(ctx, [][]*idem.Item{items})
					for _, it := range items {
						ended = append(ended, it.Outcome.Kind.String())
					}
					return ended
				}
				if ended := deliver(); ended[len(ended)-1] != idem.Retry.String() {
					t.Errorf("the first delivery: %v", ended)
				}
				st.claims = nil
				equal(t, "the second one", fmt.Sprint(deliver()), tc.ended)
				equal(t, "claims", fmt.Sprint(st.claims), tc.claims)
			})
		})
	}
}

// claimCounter counts the keys in each request for claims.
type claimCounter struct {
	*memstore.Store
	mu     sync.Mutex
	claims []int
}

func (c *claimCounter) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	c.mu.Lock()
	c.claims = append(c.claims, len(reqs))
	c.mu.Unlock()
	return c.Store.Claim(ctx, reqs)
}

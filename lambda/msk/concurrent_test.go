package msk_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/kafka"
)

// On Lambda Managed Instances a process handles several invocations at once. Two of them may have the same
// records, after a redelivery.
func TestConcurrentInvocations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		var mu sync.Mutex
		s.cfg.Report = func(_ context.Context, r kafka.Report) {
			mu.Lock()
			defer mu.Unlock()
			s.reports = append(s.reports, r)
		}
		s.start()
		for i := range 40 {
			s.ledger.takes(fmt.Sprintf("%d-%d", i/10, i%10), time.Second)
		}
		var again []string
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				var records []record
				for offset := range 10 {
					key := fmt.Sprintf("%d-%d", i/2, offset)
					records = append(records, recordAt(fmt.Sprintf("payments-%d@%d", i/2, offset), key))
				}
				resp, err := s.process(records...)
				mu.Lock()
				defer mu.Unlock()
				if again = append(again, places(resp)...); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		slices.Sort(again)
		executed := 0
		for i := range s.reports {
			executed += s.reports[i].Executed
		}
		if equal(t, "executed", executed, 40); len(again) > 0 {
			t.Errorf("to be delivered again: %v", again)
		}
		for key, n := range s.ledger.effects {
			equal(t, "effects of "+key, n, 1)
		}
	})
}

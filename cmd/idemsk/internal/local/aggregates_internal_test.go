package local

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/console"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
)

// recorded returns a recorder and the DynamoDB that it observes.
func recorded(t testing.TB) (*recorder, *dynamofake.Server) {
	t.Helper()
	r := newRecorder()
	s, err := dynamofake.New(dynamofake.Config{Addr: loopback(0), Observe: r.observe})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CreateTable(dynamofake.Table{Name: r.table, HashKey: "key"}); err != nil {
		t.Fatal(err)
	}
	return r, s
}

// put writes the entry of a key.
func put(t testing.TB, s *dynamofake.Server, key, status string, lease time.Time) {
	t.Helper()
	body := fmt.Sprintf(`{"TableName":"idemsk","Item":{"key":{"S":%q},"status":{"S":%q},"version":{"N":"1"},"attempts":{"N":"1"},"leaseUntil":{"N":"%d"}}}`,
		key, status, lease.UnixMilli())
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810.PutItem")
	w := httptest.NewRecorder()
	if s.ServeHTTP(w, r); w.Code != http.StatusOK {
		t.Errorf("%s: %s", key, w.Body)
	}
}

// The numbers of keys by state miss no change, whatever the rate and however many histories are dropped.
// Histories of settled keys are dropped first.
func TestNoStateChangeIsMissed(t *testing.T) {
	t.Parallel()
	const writers, each, open = 4, maxKeys/4 + 200, 5
	r, s := recorded(t)
	now := time.Now()
	for i := range open {
		put(t, s, fmt.Sprint("open-", i), "STARTED", now.Add(time.Hour))
	}
	put(t, s, "over", "STARTED", now.Add(-time.Second))
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				key := fmt.Sprintf("key-%d-%d", w, i)
				put(t, s, key, "STARTED", now.Add(time.Hour))
				status := "COMPLETED"
				if i%100 == 0 {
					r.Keys(console.Query{})
				}
				if i%10 == 0 {
					status = "FAILED"
				}
				put(t, s, key, status, now)
			}
		})
	}
	all.Wait()
	keys := r.Keys(console.Query{})
	want := map[string]int{console.Held: open, console.LeaseOver: 1,
		console.Completed: writers * each * 9 / 10, console.Failed: writers * each / 10}
	for state, n := range want {
		if keys.States[state] != n {
			t.Errorf("%d keys are %s, want %d", keys.States[state], state, n)
		}
	}
	if total := open + 1 + writers*each; keys.Forgotten != total-maxKeys || keys.Selected != maxKeys {
		t.Errorf("%d keys are forgotten and %d kept, of %d", keys.Forgotten, keys.Selected, total)
	}
	if got := r.keyChanges; got != open+1+2*writers*each {
		t.Errorf("%d changes", got)
	}
	if _, ok := r.History("open-0"); !ok {
		t.Error("the history of a key that is not settled was dropped, and those of settled keys are kept")
	}
	if h := r.Keys(console.Query{Has: "open"}); h.Selected != open || len(h.Keys) != open {
		t.Errorf("%d keys are found", h.Selected)
	}
}

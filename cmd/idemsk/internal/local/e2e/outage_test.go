//go:build rest

package e2e_test

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/payments"
)

// What a function needs is down for ten seconds. That costs no record: each payment is booked, once. A function that
// gets five lanes or more recognises the outage, even if two failures of a record are enough for a dead letter. With
// fewer lanes the attempts of a record must take longer than the outage.
func TestAnOutageCostsNoRecord(t *testing.T) {
	python, node := languages(t, "bookings.handler")
	python, node = behindLayer(t, python, node)
	const records, outage = 1000, 10 * time.Second
	for name, r := range map[string]bookingRun{
		"Node, partial, many lanes": {function: node, partial: true, attempts: 2, env: "IDEMSK_ORDER=none"},
		"Python, many lanes":        {function: python, attempts: 2, env: "IDEMSK_ORDER=none"},
		"Python, partitions":        {function: python, attempts: attempts, env: "IDEMSK_RETRY_DELAY=1s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r.records = records
			o, bookings := r.options(t)
			o.Env = append(o.Env, "OUTAGE_UNTIL="+strconv.FormatInt(time.Now().Add(outage).Unix(), 10))
			o.ESM.RetryDelay = 1500 * time.Millisecond // a batch is tried again after 1.5, 4.5 and 10.5 s
			report, err := local.Run(bounded(t, time.Minute), o)
			if err != nil {
				t.Fatal(err)
			}
			t.Log("\n" + report.Text())
			if report.Messages != 0 || report.Lag() != 0 || report.Done != records {
				t.Errorf("%d dead letters, lag %d, %d records done; want none, none, and all",
					report.Messages, report.Lag(), report.Done)
			}
			all, _, _ := split(t, payments.Config{Records: records, Seed: o.Seed}, 0)
			times := booked(t, bookings)
			if found := slices.Sorted(maps.Keys(times)); !slices.Equal(found, all) {
				t.Errorf("%d payments were booked, want all %d", len(found), len(all))
			}
			for id, n := range times {
				if n > 1 {
					t.Errorf("%s was booked %d times", id, n)
				}
			}
		})
	}
}

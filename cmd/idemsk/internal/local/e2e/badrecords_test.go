//go:build rest

package e2e_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/payments"
)

// bookingRun is a run of a function in testdata that books payments.
type bookingRun struct {
	function     string
	records, bad int // bad is the number of payments at which the function fails
	attempts     int
	partial      bool // the failed records are named, and only they are delivered again
	bisect       bool
	env          string
}

// options returns the options of the run and the file of the bookings.
func (r *bookingRun) options(t *testing.T) (o local.Options, bookings string) {
	t.Helper()
	o, bookings = options(t, r.records, local.Faults{}), filepath.Join(t.TempDir(), "bookings")
	o.Function, o.Copies, o.Prove, o.ESM.Pollers, o.ESM.BisectBatchOnFunctionError = r.function, 0, false, 2,
		r.bisect
	o.Env = []string{"BOOKINGS=" + bookings, "IDEMSK_MAX_ATTEMPTS=" + strconv.Itoa(r.attempts)}
	if r.env != "" {
		o.Env = append(o.Env, r.env)
	}
	if r.partial {
		o.Env = append(o.Env, "IDEMSK_FAILURES=partial")
	} else {
		o.ESM.FunctionResponseTypes = nil
	}
	return o, bookings
}

// A function that fails at a bad record costs one dead letter for each bad payment. All others are booked, once.
func TestABadRecordCostsOneRecord(t *testing.T) {
	python, node := languages(t, "bookings.handler")
	python, node = behindLayer(t, python, node)
	for name, r := range map[string]bookingRun{
		"Node, bisected": {function: node, records: 1000, bad: 2, attempts: 3, bisect: true},
		"Python":         {function: python, records: 1500, bad: 3, attempts: 1},
		"Python, a tenth is bad": {function: python, records: 500, bad: 47, attempts: 2, partial: true,
			env: "IDEMSK_ORDER=none"}, // otherwise a lane has a delivery for each that fails
		"Node, the answer is a text": {function: node, records: 1000, attempts: 1, partial: true,
			env: "ANSWER=done"},
	} {
		t.Run(name, r.badRecords)
	}
}

func (r *bookingRun) badRecords(t *testing.T) {
	o, bookings := r.options(t)
	good, bad, minimum := split(t, payments.Config{Records: r.records, Seed: o.Seed}, r.bad)
	o.Env = append(o.Env, "MINIMUM="+strconv.FormatInt(minimum, 10), "IDEMSK_RETRY_DELAY=0s")
	report, err := local.Run(bounded(t, time.Minute), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + report.Text())
	var dead []string
	for i := range report.Letters {
		dead = append(dead, payment(t, report.Letters[i].Value).PaymentID)
	}
	slices.Sort(dead)
	if !slices.Equal(dead, bad) || report.Messages != len(bad) || report.Lag() != 0 ||
		report.Done != r.records {
		t.Errorf("dead letters of %q (%d messages), lag %d, %d records done; want %q, none, and all", dead,
			report.Messages, report.Lag(), report.Done, bad)
	}
	times := booked(t, bookings)
	if all := slices.Sorted(maps.Keys(times)); !slices.Equal(all, good) {
		t.Errorf("%d payments were booked, want the %d that are not bad", len(all), len(good))
	}
	for id, n := range times {
		if n > 1 {
			t.Errorf("%s was booked %d times", id, n)
		}
	}
}

// split returns the IDs of the payments that a function books, those of the n with the smallest amounts, and
// the smallest amount that it books.
func split(t *testing.T, c payments.Config, n int) (good, bad []string, minimum int64) {
	t.Helper()
	all := make(map[string]payments.Payment)
	for m, err := range c.Messages(topic) {
		if err != nil {
			t.Fatal(err)
		}
		p := payment(t, m.Value)
		all[p.PaymentID] = p
	}
	sorted := slices.SortedFunc(maps.Values(all),
		func(a, b payments.Payment) int { return cmp.Compare(a.Amount, b.Amount) })
	minimum = sorted[n].Amount
	for _, p := range sorted {
		if p.Amount < minimum {
			bad = append(bad, p.PaymentID)
		} else {
			good = append(good, p.PaymentID)
		}
	}
	if len(bad) != n {
		t.Fatalf("%d payments have an amount below %d; want %d", len(bad), minimum, n)
	}
	slices.Sort(good)
	slices.Sort(bad)
	return good, bad, minimum
}

func payment(t *testing.T, value []byte) (p payments.Payment) {
	t.Helper()
	if err := json.Unmarshal(value, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// booked returns how often each payment was booked.
func booked(t *testing.T, file string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	times := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		var booking struct{ Payment string }
		if err := json.Unmarshal([]byte(line), &booking); err != nil {
			t.Fatal(err)
		}
		times[booking.Payment]++
	}
	return times
}

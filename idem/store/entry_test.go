package store_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

func TestParseStatus(t *testing.T) {
	for _, want := range []store.Status{store.StatusStarted, store.StatusCompleted, store.StatusFailed} {
		got, err := store.ParseStatus(string(want))
		if err != nil || got != want {
			t.Errorf("%v, %v; want %v", got, err, want)
		}
	}
	for _, bad := range []string{"", "started", "PROCESSING"} {
		if _, err := store.ParseStatus(bad); err == nil ||
			!strings.Contains(err.Error(), "STARTED, COMPLETED or FAILED") {
			t.Errorf("%q: %v; want an error that names the statuses", bad, err)
		}
	}
}

func TestFingerprints(t *testing.T) {
	none := store.Fingerprint{}
	a, b := store.FingerprintOf([]byte("a")), store.FingerprintOf([]byte("b"))
	empty, tombstone := store.FingerprintOf([]byte{}), store.FingerprintOf(nil)
	for _, tc := range []struct {
		name string
		f, g store.Fingerprint
		want bool
	}{
		{"the same value", a, store.FingerprintOf([]byte("a")), true},
		{"different values", a, b, false},
		{"a tombstone and an empty value", tombstone, empty, false},
		{"two tombstones", tombstone, store.FingerprintOf(nil), true},
		{"none and a value", none, a, true},
		{"a tombstone and none", tombstone, none, true},
	} {
		if tc.f.Matches(tc.g) != tc.want || tc.g.Matches(tc.f) != tc.want {
			t.Errorf("%s: match %t, %t; want %t", tc.name, tc.f.Matches(tc.g), tc.g.Matches(tc.f), tc.want)
		}
	}
	equal(t, "the form of none", none.String(), "")
	equal(t, "the length of a form", len(tombstone.String()), 64)
	equal(t, "a tombstone's is none", tombstone.IsZero(), false)
}

func TestEntryAsJSONOmitsUnsetFields(t *testing.T) {
	entry := store.Entry{Key: "k", Status: store.StatusStarted, Token: 7, Owner: "o", Attempts: 1,
		LeaseUntil: time.UnixMilli(1_790_000_000_123).UTC()}
	raw, err := json.Marshal(entry)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "the JSON", string(raw),
		`{"idempotencyKey":"k","status":"STARTED","version":7,"owner":"o","leaseUntil":"2026-09-21T14:13:20.123Z","attempts":1}`)
	entry.Fingerprint = store.FingerprintOf([]byte("a"))
	want := `"requestFingerprint":"ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"`
	if raw, err = json.Marshal(entry); err != nil || !strings.Contains(string(raw), want) {
		t.Errorf("%s, %v; want %s", raw, err, want)
	}
}

func TestStoredResult(t *testing.T) {
	entry := store.Entry{Status: store.StatusCompleted, Result: []byte("r")}
	if got, err := entry.StoredResult(); err != nil || string(got) != "r" {
		t.Errorf("%q, %v; want r", got, err)
	}
	for omitted, says := range map[int]string{5000: "5000 bytes",
		store.ResultUnencodable: "could not be encoded"} {
		entry := store.Entry{Status: store.StatusCompleted, ResultOmitted: omitted}
		got, err := entry.StoredResult()
		if got != nil || !errors.Is(err, store.ErrResultNotStored) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q, %v; want ErrResultNotStored that says %q", got, err, says)
		}
	}
}

func TestOnlyAStartedKeyIsReleased(t *testing.T) {
	for status, want := range map[store.Status]bool{store.StatusStarted: true, store.StatusCompleted: false,
		store.StatusFailed: false} {
		entry := store.Entry{Status: status, RetryAt: time.UnixMilli(1)}
		equal(t, "released while "+string(status), entry.Released(), want)
	}
}

func TestListQueryMatches(t *testing.T) {
	now := time.UnixMilli(1_790_000_000_123)
	held := store.Entry{Key: "a#1", Status: store.StatusStarted, LeaseUntil: now.Add(time.Second),
		UpdatedAt: now}
	over := held
	over.LeaseUntil = now
	waiting := over
	waiting.RetryAt = now.Add(time.Second)
	due := held
	due.RetryAt = now
	completed := over
	completed.Status = store.StatusCompleted
	for _, tc := range []struct {
		name  string
		q     store.ListQuery
		entry store.Entry
		want  bool
	}{
		{"everything", store.ListQuery{}, held, true},
		{"its status", store.ListQuery{Status: store.StatusStarted}, held, true},
		{"another status", store.ListQuery{Status: store.StatusFailed}, held, false},
		{"updated before", store.ListQuery{Before: now.Add(1)}, held, true},
		{"updated then", store.ListQuery{Before: now}, held, false},
		{"part of its key", store.ListQuery{KeyHas: "#1"}, held, true},
		{"part of another key", store.ListQuery{KeyHas: "b#"}, held, false},
		{"overdue: a live lease", store.ListQuery{Overdue: true}, held, false},
		{"overdue: a lease that is over", store.ListQuery{Overdue: true}, over, true},
		{"overdue: a delay", store.ListQuery{Overdue: true}, waiting, false},
		{"overdue: a delay that is over", store.ListQuery{Overdue: true}, due, true},
		{"overdue: COMPLETED", store.ListQuery{Overdue: true}, completed, false},
		{"all of it", store.ListQuery{Overdue: true, Status: store.StatusStarted, KeyHas: "a",
			Before: now.Add(1)}, over, true},
	} {
		if got := tc.q.Matches(&tc.entry, now); got != tc.want {
			t.Errorf("%s: %t; want %t", tc.name, got, tc.want)
		}
	}
}

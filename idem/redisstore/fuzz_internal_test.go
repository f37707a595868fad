package redisstore

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/idem/storetest"
)

// FuzzHash reads any hash. What is read as an entry is the entry again from the fields that the scripts write
// for it.
func FuzzHash(f *testing.F) {
	f.Add("STARTED", "7", "o", "1790000000123", "", "1", "", "", "t-0@1", "1790000000")
	f.Add("COMPLETED", "9223372036854775807", "", "-1", "5", "0", "12345678901234567890123456789012",
		"result", "", "0")
	f.Add("STARTED", "1e3", "", "9223372036854775807", "x", " 1", "short", "", "", "-9223372036854775808")
	f.Fuzz(func(t *testing.T, status, version, owner, lease, retry, attempts, fingerprint, result, source,
		expiry string) {
		fields := map[string]string{fieldStatus: status, fieldOwner: owner, fieldSource: source,
			fieldFingerprint: fingerprint, fieldResult: result}
		for name, text := range map[string]string{
			fieldVersion: version, fieldLeaseUntil: lease, fieldRetryAt: retry, fieldAttempts: attempts,
			fieldExpiry: expiry,
		} {
			if text != "" { // the scripts write no empty number
				fields[name] = text
			}
		}
		first, err := decode("k", fields)
		if err != nil {
			if !errors.Is(err, store.ErrForeignEntry) {
				t.Fatal(err)
			}
			return
		}
		again := map[string]string{
			fieldStatus: string(first.Status), fieldVersion: strconv.FormatInt(first.Token, 10),
			fieldOwner:      first.Owner,
			fieldLeaseUntil: millis(first.LeaseUntil), fieldAttempts: strconv.Itoa(first.Attempts),
			fieldResult: string(first.Result),
			fieldSource: first.Source, fieldExpiry: strconv.FormatInt(first.Expiry.Unix(), 10),
		}
		if !first.RetryAt.IsZero() {
			again[fieldRetryAt] = millis(first.RetryAt)
		}
		if !first.Fingerprint.IsZero() {
			again[fieldFingerprint] = string(first.Fingerprint[:])
		}
		second, err := decode("k", again)
		if d := storetest.Diff(second, first); err != nil || d != "" {
			t.Fatalf("%v: %s", err, d)
		}
	})
}

func millis(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }

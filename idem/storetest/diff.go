package storetest

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// Diff describes the fields in which two entries differ. It returns "" if they are equal. A nil and an empty
// result are equal, because a replay returns the same.
func Diff(got, want store.Entry) string {
	var diffs []string
	field := func(name string, equal bool, g, w any) {
		if !equal {
			diffs = append(diffs, fmt.Sprintf("%s: %v, %v", name, g, w))
		}
	}
	at := func(name string, g, w time.Time) { field(name, g.Equal(w), g.UTC(), w.UTC()) }
	field("Key", got.Key == want.Key, got.Key, want.Key)
	field("Status", got.Status == want.Status, got.Status, want.Status)
	field("Token", got.Token == want.Token, got.Token, want.Token)
	field("Owner", got.Owner == want.Owner, got.Owner, want.Owner)
	field("Attempts", got.Attempts == want.Attempts, got.Attempts, want.Attempts)
	field("Fingerprint", got.Fingerprint == want.Fingerprint, got.Fingerprint, want.Fingerprint)
	field("Result", bytes.Equal(got.Result, want.Result), got.Result, want.Result)
	field("ResultOmitted", got.ResultOmitted == want.ResultOmitted, got.ResultOmitted, want.ResultOmitted)
	field("Source", got.Source == want.Source, got.Source, want.Source)
	if want.Held() { // otherwise it means nothing
		at("LeaseUntil", got.LeaseUntil, want.LeaseUntil)
	}
	at("RetryAt", got.RetryAt, want.RetryAt)
	at("CreatedAt", got.CreatedAt, want.CreatedAt)
	at("UpdatedAt", got.UpdatedAt, want.UpdatedAt)
	at("Expiry", got.Expiry, want.Expiry)
	if d := diffFailure(got.Failure, want.Failure); d != "" {
		diffs = append(diffs, "Failure: "+d)
	}
	return strings.Join(diffs, "; ")
}

func diffFailure(got, want *store.Failure) string {
	switch {
	case got == nil && want == nil:
		return ""
	case got == nil || want == nil:
		return fmt.Sprintf("%v, %v", got, want)
	case got.Code != want.Code || got.Message != want.Message || !got.At.Equal(want.At):
		return fmt.Sprintf("%v, %v", *got, *want)
	}
	return ""
}

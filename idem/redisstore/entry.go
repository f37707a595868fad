package redisstore

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// The fields of a hash. The scripts use the same names. Times are in epoch milliseconds, except fieldExpiry.
// Fields are added but never removed: later versions read every hash that an earlier version wrote.
const (
	fieldStatus         = "status"
	fieldVersion        = "version" // the fencing token
	fieldOwner          = "owner"
	fieldLeaseUntil     = "leaseUntil"
	fieldRetryAt        = "retryAt" // present if released
	fieldAttempts       = "attempts"
	fieldFingerprint    = "requestFingerprint" // 32 bytes
	fieldResult         = "responsePayload"
	fieldResultOmitted  = "resultOmitted" // size in bytes
	fieldFailureCode    = "failureCode"
	fieldFailureMessage = "failureMessage"
	fieldFailureAt      = "failureAt" // present if there is a failure
	fieldSource         = "source"
	fieldCreatedAt      = "createdAt"
	fieldUpdatedAt      = "updatedAt"
	fieldExpiry         = "expiryTimestamp" // epoch seconds; the server deletes the key MaxClockSkew later
)

// fieldLarge replaces fieldResult in an answer. It is not stored.
const fieldLarge = "largeResult"

// answer is the answer of a script.
type answer struct {
	what  string
	wait  time.Duration
	at    time.Time   // of a new key's claim, by the server's clock
	entry store.Entry // the current entry; zero if there is none
	large int         // the size of the result if it was left out
}

var errAnswer = errors.New("the server's answer can't be read: is there a proxy between, or a script of another program?")

func unknownAnswer(what string) error {
	if what == "foreign" {
		return fmt.Errorf("%w: another program wrote this hash: give the store a Prefix of its own",
			store.ErrForeignEntry)
	}
	return fmt.Errorf("%w It was %q", errAnswer, what)
}

// newEntry returns the entry of a key that was claimed at a time for the first time (rule 2).
func newEntry(req *store.ClaimRequest, at time.Time) store.Entry {
	leaseUntil := at.Add(req.Lease.Truncate(time.Millisecond))
	expiry := leaseUntil.UnixMilli() + ceilMillis(req.Retention)
	return store.Entry{
		Key: req.Key, Status: store.StatusStarted, Token: at.UnixMilli(), Owner: req.Owner, Attempts: 1,
		Fingerprint: req.Fingerprint, Source: req.Source, LeaseUntil: leaseUntil, CreatedAt: at, UpdatedAt: at,
		Expiry: time.Unix((expiry+999)/1000, 0), //nolint:mnd // rounded up
	}
}

// readAnswer reads what a script answers for a key: an error, {what}, {"new", the time}, or {what, how long to
// wait, the hash}.
func readAnswer(key string, value any) (answer, error) {
	if err, ok := value.(error); ok {
		return answer{}, err
	}
	parts, _ := value.([]any)
	var a answer
	if len(parts) == 0 {
		return answer{}, errAnswer
	}
	a.what, _ = parts[0].(string) // "" is unknown
	if a.what == "new" && len(parts) > 1 {
		now, err := strconv.ParseInt(fmt.Sprint(parts[1]), 10, 64)
		if err != nil {
			return answer{}, errAnswer
		}
		a.at = time.UnixMilli(now)
		return a, nil
	}
	if len(parts) < 3 || a.what == "foreign" {
		return a, nil
	}
	wait, err := strconv.ParseInt(fmt.Sprint(parts[1]), 10, 64)
	if err != nil {
		return answer{}, errAnswer
	}
	a.wait = time.Duration(wait) * time.Millisecond
	flat, _ := parts[2].([]any) // empty if the key does not exist
	if len(flat) == 0 {
		return a, nil
	}
	fields := fieldsOf(flat)
	if size := fields[fieldLarge]; size != "" {
		if a.large, err = strconv.Atoi(size); err != nil {
			return answer{}, errAnswer
		}
	}
	a.entry, err = decode(key, fields)
	return a, err
}

// fieldsOf returns the fields of a hash from a list of names and values in turn.
func fieldsOf(flat []any) map[string]string {
	fields := make(map[string]string, len(flat)/2)
	for i := 0; i+1 < len(flat); i += 2 {
		fields[fmt.Sprint(flat[i])] = fmt.Sprint(flat[i+1])
	}
	return fields
}

// decode returns the entry of a hash, or store.ErrForeignEntry (wrapped).
func decode(key string, fields map[string]string) (store.Entry, error) {
	status, err := store.ParseStatus(fields[fieldStatus])
	errs := []error{err}
	num := func(name string) int64 {
		text, ok := fields[name]
		if !ok {
			return 0
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s is %q: want a whole number", name, text))
		}
		return n
	}
	entry := store.Entry{
		Key: key, Status: status, Token: num(fieldVersion), Owner: fields[fieldOwner],
		LeaseUntil: time.UnixMilli(num(fieldLeaseUntil)), Attempts: int(num(fieldAttempts)),
		ResultOmitted: int(num(fieldResultOmitted)), Source: fields[fieldSource],
		CreatedAt: time.UnixMilli(num(fieldCreatedAt)), UpdatedAt: time.UnixMilli(num(fieldUpdatedAt)),
		Expiry: time.Unix(num(fieldExpiry), 0),
	}
	if result := fields[fieldResult]; result != "" {
		entry.Result = []byte(result)
	}
	if at := num(fieldRetryAt); at != 0 {
		entry.RetryAt = time.UnixMilli(at)
	}
	if n := copy(entry.Fingerprint[:], fields[fieldFingerprint]); n != 0 &&
		len(fields[fieldFingerprint]) != len(entry.Fingerprint) {
		errs = append(errs, fmt.Errorf("%s has %d bytes: want %d", fieldFingerprint,
			len(fields[fieldFingerprint]), len(entry.Fingerprint)))
	}
	if at := num(fieldFailureAt); at != 0 {
		entry.Failure = &store.Failure{Code: fields[fieldFailureCode], Message: fields[fieldFailureMessage],
			At: time.UnixMilli(at)}
	}
	if err := errors.Join(errs...); err != nil {
		return store.Entry{}, fmt.Errorf("%w: the hash of key %q: %w", store.ErrForeignEntry, key, err)
	}
	return entry, nil
}

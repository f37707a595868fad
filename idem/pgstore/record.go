package pgstore

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/silence"
)

// columns are the columns of an entry, in the order in which readSighting reads them.
const columns = `idempotency_key, status, version, owner, lease_until, retry_at, attempts, request_fingerprint,
	response_payload, result_omitted, failure_code, failure_message, failure_at, source, created_at, updated_at, expiry_timestamp`

// sighting is an entry, and the server's time when it was read.
type sighting struct {
	rec store.Entry
	now time.Time
}

// readSightings reads rows of columns and the server's time, and closes them.
func readSightings(rows pgx.Rows, w *silence.Watch, into map[string]sighting) error {
	defer rows.Close()
	for rows.Next() {
		w.Heard()
		s, err := readSighting(rows)
		if err != nil {
			return err
		}
		into[s.rec.Key] = s
	}
	return rows.Err()
}

func readSighting(row pgx.Row) (s sighting, err error) {
	var (
		rec                 = &s.rec
		status              string
		fingerprint         []byte
		omitted             int64
		retryAt, failureAt  *time.Time
		failCode, failureIs *string
	)
	err = row.Scan(&rec.Key, &status, &rec.Token, &rec.Owner, &rec.LeaseUntil, &retryAt, &rec.Attempts, &fingerprint,
		&rec.Result, &omitted, &failCode, &failureIs, &failureAt, &rec.Source, &rec.CreatedAt, &rec.UpdatedAt, &rec.Expiry, &s.now)
	if err != nil {
		return s, err
	}
	rec.Key, rec.Owner, rec.Source = unescape(rec.Key), unescape(rec.Owner), unescape(rec.Source)
	rec.ResultOmitted = int(omitted)
	if rec.Status, err = store.ParseStatus(status); err != nil {
		return s, fmt.Errorf("key %q: %w", rec.Key, err)
	}
	if fingerprint != nil && copy(rec.Fingerprint[:], fingerprint) != len(fingerprint) {
		return s, fmt.Errorf("key %q: its request_fingerprint has %d bytes: want %d", rec.Key, len(fingerprint), len(rec.Fingerprint))
	}
	if retryAt != nil {
		rec.RetryAt = *retryAt
	}
	if failCode != nil {
		rec.Failure = &store.Failure{Code: unescape(*failCode), Message: unescape(valueOf(failureIs)), At: valueOf(failureAt)}
	}
	return s, nil
}

func valueOf[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// took is the result of an attempt to take a key.
type took struct {
	taken  bool
	stolen bool // the previous owner had not released it
}

// readTook reads the result of statements.take, and closes it. There is no row if the key was not taken.
func readTook(rows pgx.Rows) (t took, err error) {
	defer rows.Close()
	if rows.Next() {
		t.taken = true
		err = rows.Scan(&t.stolen)
	}
	if err == nil {
		err = rows.Err()
	}
	return t, err
}

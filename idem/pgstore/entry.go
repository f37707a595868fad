package pgstore

import (
	"errors"
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
	rec     store.Entry
	now     time.Time
	foreign error // why the row can't be read: another program wrote it
}

// readSightings reads rows of columns and the server's time, and closes them. A foreign row affects only its own key.
func readSightings(rows pgx.Rows, w *silence.Watch, into map[string]sighting) error {
	defer rows.Close()
	for rows.Next() {
		w.Heard()
		s, err := readSighting(rows)
		if errors.Is(err, store.ErrForeignEntry) {
			s.foreign, err = err, nil
		}
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
		return s, fmt.Errorf("%w: key %q: %w", store.ErrForeignEntry, rec.Key, err)
	}
	if n := copy(rec.Fingerprint[:], fingerprint); fingerprint != nil && (n != len(fingerprint) || n != len(rec.Fingerprint)) {
		return s, fmt.Errorf("%w: key %q: its request_fingerprint has %d bytes: want %d", store.ErrForeignEntry, rec.Key, len(fingerprint), len(rec.Fingerprint))
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

package pgstore

import (
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/network/silence"
)

// columns are the columns of an entry, in the order in which readSighting reads them.
const columns = `idempotency_key, status, version, owner, lease_until, retry_at, attempts, request_fingerprint,
	response_payload, result_omitted, failure_code, failure_message, failure_at, source, created_at, updated_at, expiry_timestamp`

const columnCount = 17

// sighting is an entry, and the server's time when it was read.
type sighting struct {
	entry   store.Entry
	now     time.Time
	foreign error // why the row can't be read: another program wrote it
}

// readSightings reads rows of columns and the server's time, and closes them. A foreign row affects only its
// own key.
func readSightings(rows pgx.Rows, w *silence.Watch, into map[string]sighting) error {
	defer rows.Close()
	for rows.Next() {
		w.Heard()
		s, err := readSighting(rows)
		if err != nil {
			return err
		}
		into[s.entry.Key] = s
	}
	return rows.Err()
}

// readSighting reads a row of columns, the server's time, and others.
func readSighting(row pgx.Row, others ...any) (s sighting, err error) {
	if s, err = scanSighting(row, others); errors.Is(err, store.ErrForeignEntry) {
		s.foreign, err = err, nil
	}
	return s, err
}

func scanSighting(row pgx.Row, others []any) (s sighting, err error) {
	var (
		entry               = &s.entry
		status              string
		fingerprint         []byte
		omitted             int64
		retryAt, failureAt  *time.Time
		failCode, failureIs *string
	)
	err = row.Scan(append([]any{&entry.Key, &status, &entry.Token, &entry.Owner, &entry.LeaseUntil, &retryAt,
		&entry.Attempts, &fingerprint,
		&entry.Result, &omitted, &failCode, &failureIs, &failureAt, &entry.Source, &entry.CreatedAt,
		&entry.UpdatedAt, &entry.Expiry, &s.now}, others...)...)
	if err != nil {
		return s, err
	}
	entry.Key, entry.Owner, entry.Source = unescape(entry.Key), unescape(entry.Owner), unescape(entry.Source)
	entry.ResultOmitted = int(omitted)
	if entry.Status, err = store.ParseStatus(status); err != nil {
		return s, fmt.Errorf("%w: key %q: %w", store.ErrForeignEntry, entry.Key, err)
	}
	if n := copy(entry.Fingerprint[:], fingerprint); fingerprint != nil &&
		(n != len(fingerprint) || n != len(entry.Fingerprint)) {
		return s, fmt.Errorf("%w: key %q: its request_fingerprint has %d bytes: want %d",
			store.ErrForeignEntry, entry.Key, len(fingerprint), len(entry.Fingerprint))
	}
	if retryAt != nil {
		entry.RetryAt = *retryAt
	}
	if failCode != nil {
		entry.Failure = &store.Failure{Code: unescape(*failCode), Message: unescape(valueOf(failureIs)),
			At: valueOf(failureAt)}
	}
	return s, nil
}

func valueOf[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// claimRow is what statements.take did with a key.
type claimRow int

const (
	rowFound  claimRow = iota // it was not taken
	rowFresh                  // it was absent, and was taken
	rowTaken                  // it was taken
	rowStolen                 // it was taken from an owner that had not released it
)

// claimAnswer is a row of statements.take.
type claimAnswer struct {
	sighting // of a fresh key: its Key, and the time
	row      claimRow
}

// readClaims reads the rows of statements.take into a map, and closes them.
func readClaims(rows pgx.Rows, w *silence.Watch, into map[string]claimAnswer) error {
	defer rows.Close()
	var answer claimAnswer
	state, fresh := make([]any, columnCount+2), make([]any, columnCount+2)
	state[columnCount+1] = &answer.row
	fresh[0], fresh[columnCount] = &answer.entry.Key, &answer.now
	for rows.Next() {
		w.Heard()
		answer = claimAnswer{}
		err := rows.Scan(state...)
		switch {
		case err != nil:
		case answer.row == rowFresh:
			err = rows.Scan(fresh...)
			answer.entry.Key = unescape(answer.entry.Key)
		default:
			answer.sighting, err = readSighting(rows, nil)
		}
		if err != nil {
			return err
		}
		into[answer.entry.Key] = answer
	}
	return rows.Err()
}

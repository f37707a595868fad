package pgstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/pg/pgtrip"
)

// SQLSTATEs that the store interprets.
// https://www.postgresql.org/docs/current/errcodes-appendix.html
const (
	stateDivisionByZero       = "22012" // the refusal of statements.completeAll
	stateInvalidText          = "22P02" // what sentText.sent makes of a wrong number of rows
	stateInvalidPassword      = "28P01"
	stateInvalidAuthorization = "28000"
	stateNoSuchDatabase       = "3D000"
	stateNoSuchSchema         = "3F000"
	stateNoSuchTable          = "42P01"
	stateNoSuchColumn         = "42703"
	stateNoPrivilege          = "42501"
	stateReadOnly             = "25006"
	stateIdleTooLong          = "25P03"
	stateSerialization        = "40001"
	stateDeadlock             = "40P01"
	stateDiskFull             = "53100"
	stateTooManyConnections   = "53300"
	// a lock was not free within lock_timeout, which the role, the database or the URL sets.
	stateLockTimeout = "55P03"
	stateShutdown    = "57P01"
	stateCrashed     = "57P02"
	stateStarting    = "57P03"
)

const (
	maxTries  = 3
	firstWait = 25 * time.Millisecond
)

// send makes a round trip. It retries if the connection breaks, if the server does not answer for limit, or
// if the server rolls the transaction back for a transient reason, up to three tries in all. Retries are safe
// even if the first try was applied, because claims and settlements recognise their own entries.
func (s *Store) send(ctx context.Context, limit time.Duration, f pgtrip.Exchange) error {
	return retry(ctx, transient, func() error { return s.pool.RoundTrip(ctx, limit, f) })
}

// retry calls trip until it succeeds or fails with an error that is not to be retried, at most maxTries times.
func retry(ctx context.Context, again func(error) bool, trip func() error) error {
	for n := 1; ; n++ {
		err := trip()
		if err == nil || n >= maxTries || !again(err) || !pause(ctx, n) {
			return err
		}
	}
}

// pause waits before the try after the nth. It returns false if the context ends first.
func pause(ctx context.Context, n int) bool {
	d := firstWait << n
	timer := time.NewTimer(d/2 + rand.N(d/2)) //nolint:gosec // jitter needs no cryptographic randomness
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// transient reports whether a round trip that failed with err may succeed if it is retried at once.
func transient(err error) bool {
	if pgtrip.IsUnsent(err) {
		return false
	}
	switch state := stateOf(err); state {
	case stateShutdown, stateCrashed, stateStarting, stateIdleTooLong:
		return true
	case "":
		return broken(err)
	default:
		return conflicting(err) || strings.HasPrefix(state, "08") // connection exceptions
	}
}

// refusing reports whether an error of completions in a transaction says that one of them is refused.
func refusing(err error) bool {
	return stateOf(err) == stateDivisionByZero
}

// conflicting reports whether the server rolled a transaction back because of another one. Nothing was
// changed, and the store is available.
func conflicting(err error) bool {
	switch stateOf(err) {
	case stateSerialization, stateDeadlock, stateLockTimeout:
		return true
	default:
		return false
	}
}

// stateOf returns the SQLSTATE of an error of the server, "" for another error.
func stateOf(err error) string {
	var said *pgconn.PgError
	if errors.As(err, &said) {
		return said.Code
	}
	return ""
}

// broken reports whether err is an error of the connection, neither the server's, the caller's nor this
// package's.
func broken(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var refused *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &refused) || errors.As(err, &network) || pgconn.SafeToRetry(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// explain adds the operation, the key and, if the cause is known, the remedy to an error.
func (s *Store) explain(op, key string, err error) error {
	return fmt.Errorf("pgstore: %s %q in table %s: %w%s", op, key, s.table, classified(err), hint(err))
}

// complain is explain for operations without a key.
func (s *Store) complain(op string, err error) error {
	return fmt.Errorf("pgstore: %s in table %s: %w%s", op, s.table, classified(err), hint(err))
}

// classified wraps an error of the server with the condition of package store that it is, if any.
func classified(err error) error {
	switch state := stateOf(err); {
	case conflicting(err):
		return fmt.Errorf("%w: %w", store.ErrContended, err)
	case slices.Contains([]string{stateNoSuchTable, stateNoSuchSchema, stateNoSuchColumn, stateNoSuchDatabase,
		stateNoPrivilege}, state), pgtrip.PoolerHint(err) != "":
		return fmt.Errorf("%w: %w", store.ErrMisconfigured, err)
	}
	return err
}

func hint(err error) string {
	switch stateOf(err) {
	case stateNoSuchTable, stateNoSuchSchema:
		return " (the table does not exist in this database: run idemsk migrate, or set IDEMSK_TABLE to the right one)"
	case stateNoSuchColumn:
		return " (the table is older than this program: run idemsk migrate)"
	case stateInvalidPassword, stateInvalidAuthorization:
		return " (the credentials are wrong, or pg_hba.conf does not let this user in from here)"
	case stateNoSuchDatabase:
		return " (the database named in IDEMSK_STORE_URL does not exist)"
	case stateNoPrivilege:
		return " (the role needs SELECT, INSERT, UPDATE and DELETE on the table, and USAGE on its schema)"
	case stateReadOnly:
		return " (the server is a standby, or its transactions are read-only by default: name the primary in IDEMSK_STORE_URL, " +
			"or all of them with target_session_attrs=read-write)"
	case stateSerialization, stateDeadlock, stateLockTimeout:
		return " (another transaction was in conflict with all tries: try again)"
	case stateDiskFull:
		return " (the server's disk is full)"
	case stateTooManyConnections:
		return " (the server's connections are used up: lower the function's concurrency or the pool's size, or put a pooler before it)"
	case stateShutdown, stateCrashed, stateStarting:
		return " (the server is being stopped or started)"
	}
	if errors.Is(err, pgconn.ErrReadOnlyConnection) {
		return " (no server that IDEMSK_STORE_URL names takes writes: there is a failover on its way, or the primary is not among them)"
	}
	var connecting *pgconn.ConnectError
	if broken(err) || errors.As(err, &connecting) {
		return " (the server can't be reached, or the connection broke: check IDEMSK_STORE_URL, the security group, and that the server is up)"
	}
	return pgtrip.PoolerHint(err)
}

package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/internal/chunks"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/network/silence"
)

// A group is completions whose handlers have enlisted statements and have no connection. The statements and
// completions of a group are sent in one round trip without BEGIN and COMMIT: the server executes what comes
// before one Sync as one transaction. A completion that is refused is an error of the server. So nothing is
// committed unless everything is, and a group that is sent again after its answer was lost commits nothing
// twice: its completions are refused then.

// settleGroups settles the completions with these indices, which have enlisted statements only.
func (s *Store) settleGroups(ctx context.Context, ss []store.Settlement, enlisted []int, errs []error) {
	for from, to := range chunks.Of(len(enlisted), maxBatchSize,
		func(n int) int { return len(ss[enlisted[n]].Result) }) {
		s.settleGroup(ctx, ss, enlisted[from:to], errs)
	}
}

// settleGroup settles a group. A completion at which the server reported an error is settled alone, and the
// others are sent again without it.
func (s *Store) settleGroup(ctx context.Context, ss []store.Settlement, group []int, errs []error) {
	left := append([]int(nil), group...)
	for len(left) > 1 {
		at, _, err := s.tryGroup(ctx, ss, left)
		switch {
		case err == nil:
			return
		case !reported(err):
			for _, i := range left {
				errs[i] = s.explain("complete", ss[i].Key, err)
			}
			return
		case conflicting(err), at == len(left): // by other transactions, or at the end of the transaction
			for _, i := range left {
				errs[i] = s.settleEnlisted(ctx, ss, i)
			}
			return
		}
		errs[left[at]] = s.settleEnlisted(ctx, ss, left[at])
		left = append(left[:at], left[at+1:]...)
	}
	if len(left) == 1 {
		errs[left[0]] = s.settleEnlisted(ctx, ss, left[0])
	}
}

// reported reports whether err is an error that the server reported of a statement, and not one that ended the
// connection.
func reported(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && said.SeverityUnlocalized == "ERROR"
}

// tryGroup sends a group. If it fails, at is the place in the group of the completion, and statement the number
// of its statement, at which the server reported the error: the number of its statements for the completion
// itself. at is the size of the group if the server reported the error at the end.
func (s *Store) tryGroup(ctx context.Context, ss []store.Settlement, group []int) (at, statement int, err error) {
	err = s.send(ctx, s.limit, func(w *silence.Watch, conn *pgx.Conn) error {
		at, statement = 0, 0
		var batch pgx.Batch
		for _, i := range group {
			for n := range enlistedBy(&ss[i]) {
				ss[i].Effect.(*effect).enlisted[n].queue(&batch, func() { w.Heard(); statement++ })
			}
			batch.Queue(s.sql.completeTx, settleArgs(&ss[i])...).Exec(func(pgconn.CommandTag) error {
				w.Heard()
				at, statement = at+1, 0
				return nil
			})
		}
		return conn.SendBatch(w.Context(), &batch).Close()
	})
	return at, statement, err
}

// enlistedBy returns what a handler has enlisted.
func enlistedBy(set *store.Settlement) []statement {
	e, _ := set.Effect.(*effect)
	return e.enlisted
}

// settleEnlisted settles one completion in a transaction of its own.
func (s *Store) settleEnlisted(ctx context.Context, ss []store.Settlement, i int) error {
	set := &ss[i]
	at, n, err := s.tryGroup(ctx, ss, []int{i})
	statements := enlistedBy(set)
	switch {
	case err == nil:
		return nil
	case !reported(err):
		return s.explain("complete", set.Key, err)
	case at == 0 && n == len(statements) && stateOf(err) == stateDivisionByZero:
		return s.refusedCompletion(ctx, set)
	case at == 0 && n == len(statements) && !strings.HasPrefix(stateOf(err), "40"):
		return s.explain("complete", set.Key, err)
	case at == 0 && n == 0 && s.unreadable(ctx, set.Key) != nil: // it may be an error of preparing any of them
		return s.explain("complete", set.Key, err)
	case at == 0 && n < len(statements):
		return &store.RejectedError{Err: outOfResources(statements[n].failed(err), err)}
	}
	return &store.RejectedError{Err: fmt.Errorf("pgstore: nothing was committed: %w", outOfResources(err, err))}
}

// outOfResources marks an error as unavailable if the server lacked disk or memory.
func outOfResources(err, said error) error {
	if strings.HasPrefix(stateOf(said), "53") {
		return idem.Unavailable(err)
	}
	return err
}

// unreadable returns an error if the table can't be read.
func (s *Store) unreadable(ctx context.Context, key string) error {
	_, _, err := s.lookAtOne(ctx, key)
	return err
}

// refusedCompletion returns why a completion was refused, nil if it was applied before.
func (s *Store) refusedCompletion(ctx context.Context, set *store.Settlement) error {
	seen, err := s.lookAt(ctx, []string{set.Key})
	if err != nil {
		return s.explain("complete", set.Key, err)
	}
	found, there := seen[set.Key]
	return refusal(set, &found.entry, there)
}

package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/silence"
)

// isTransactional reports whether a settlement has an effect to commit or its own key to claim.
func isTransactional(set *store.Settlement) bool { return set.Effect != nil || set.Claim != nil }

// settleTransactions starts the transactional settlements of ss. wait returns when all of them are settled.
func (s *Store) settleTransactions(ctx context.Context, ss []store.Settlement, errs []error) (wait func()) {
	var all sync.WaitGroup
	for i := range ss {
		if isTransactional(&ss[i]) {
			all.Go(func() { errs[i] = s.settleTransaction(ctx, &ss[i]) })
		}
	}
	return all.Wait
}

func (s *Store) settleTransaction(ctx context.Context, set *store.Settlement) error {
	if set.Effect == nil {
		return s.putAbsent(ctx, set)
	}
	e, ok := set.Effect.(*effect)
	if !ok || e.store != s {
		return &store.RejectedError{Err: fmt.Errorf("pgstore: the effect is a %T: want the store's own", set.Effect)}
	}
	conn := e.take()
	if conn == nil {
		return s.settleAgain(ctx, set)
	}
	err := s.commit(ctx, set, conn)
	e.end(conn) // first, because the pool may have no other connection
	switch {
	case !errors.Is(err, errNotFree):
		return err
	case set.Claim != nil:
		return s.refusedClaim(ctx, set)
	}
	seen, err := s.lookAt(ctx, []string{set.Key})
	if err != nil {
		return s.explain("complete", set.Key, err)
	}
	found, there := seen[set.Key]
	return refusal(set, &found.rec, there)
}

// errNotFree means that the owner no longer holds the key, or that a key was not absent. The handler's writes are undone.
var errNotFree = errors.New("pgstore: the completion was refused")

// commit completes the key and commits, in one round trip. The caller must end the connection. A refused completion is an
// error of the server, so that the COMMIT after it is not executed.
func (s *Store) commit(ctx context.Context, set *store.Settlement, conn *pgxpool.Conn) error {
	if err := ctx.Err(); err != nil {
		return s.explain("complete", set.Key, err)
	}
	if err := usable(conn.Conn()); err != nil {
		return &store.RejectedError{Err: err}
	}
	completed := false
	var batch pgx.Batch
	sql, args := s.sql.completeTx, settleArgs
	if set.Claim != nil {
		sql, args = s.sql.putTx, putArgs
	}
	batch.Queue(sql, args(set)...).Exec(func(pgconn.CommandTag) error {
		completed = true
		return nil
	})
	batch.Queue(`COMMIT`).Exec(func(tag pgconn.CommandTag) error {
		if tag.String() != "COMMIT" {
			return fmt.Errorf("the server answered %s to COMMIT", tag)
		}
		return nil
	})
	err := s.pool.On(ctx, s.limit, conn.Conn(), func(w *silence.Watch, conn *pgx.Conn) error {
		return conn.SendBatch(w.Context(), &batch).Close()
	})
	var said *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case stateOf(err) == stateIdleTooLong: // the transaction had ended before the completion was sent
		return &store.RejectedError{Err: fmt.Errorf("%w: %w", errConnection, err)}
	case !errors.As(err, &said) || said.SeverityUnlocalized != "ERROR": // the connection broke: whether the COMMIT was executed is unknown
		return s.explain("complete", set.Key, err)
	case !completed && said.Code == stateDivisionByZero:
		return errNotFree
	case !completed && !strings.HasPrefix(said.Code, "40"): // an error of the completion itself, not a conflict of the handler's writes
		return s.explain("complete", set.Key, err)
	case strings.HasPrefix(said.Code, "53"): // the server lacks disk or memory
		err = idem.Unavailable(err)
	}
	return &store.RejectedError{Err: fmt.Errorf("pgstore: the transaction was not committed, and the handler's writes were rolled back: %w", err)}
}

// putAbsent completes an absent key for a handler without a transaction.
func (s *Store) putAbsent(ctx context.Context, set *store.Settlement) error {
	rows, err := s.execute(ctx, s.limit, s.sql.put, putArgs(set)...)
	switch {
	case err != nil:
		return s.explain("complete", set.Key, err)
	case rows > 0:
		return nil
	}
	return s.refusedClaim(ctx, set)
}

// refusedClaim distinguishes a completion that was applied before from a key that another owner has claimed.
func (s *Store) refusedClaim(ctx context.Context, set *store.Settlement) error {
	found, there, err := s.lookAtOne(ctx, set.Key)
	switch {
	case err != nil:
		return s.explain("complete", set.Key, err)
	case !there:
		return &store.ClaimRefusedError{}
	case store.OwnSettlement(set, &found.rec):
		return nil
	}
	res, _ := s.judge(set.Claim, &found)
	return &store.ClaimRefusedError{Result: res}
}

// settleAgain retries a completion whose transaction has ended, after its reply was lost. The completion was applied, or it
// never will be: settleAgain releases the key, which waits for a COMMIT in progress and makes the server refuse a later one.
func (s *Store) settleAgain(ctx context.Context, set *store.Settlement) error {
	if set.Claim != nil {
		return s.claimAgain(ctx, set)
	}
	release := store.Settlement{
		Op: store.OpRelease, Key: set.Key, Token: set.Token, Owner: set.Owner, Retention: set.Retention,
		Failure: &store.Failure{Code: store.CodeError, Message: errConnection.Error()},
	}
	err := s.one(ctx, &release)
	var fenced *store.FencedError
	switch {
	case errors.As(err, &fenced):
		return refusal(set, &fenced.Current, fenced.Current.Status != "")
	case err != nil:
		return err
	}
	found, _, err := s.lookAtOne(ctx, set.Key)
	return fmt.Errorf("pgstore: complete %q: %w: %w", set.Key, errors.Join(errConnection, err),
		&store.FencedError{Key: set.Key, Token: set.Token, Current: found.rec})
}

// claimAgain is settleAgain for a completion that was to claim its key: it claims the key and releases it.
func (s *Store) claimAgain(ctx context.Context, set *store.Settlement) error {
	res := s.Claim(ctx, []store.ClaimRequest{*set.Claim})[0]
	switch {
	case res.State == store.Claimed:
		release := store.Settlement{
			Op: store.OpRelease, Key: set.Key, Token: res.Entry.Token, Owner: set.Claim.Owner, Retention: set.Retention, Refund: true,
		}
		if err := s.one(ctx, &release); err != nil {
			return err
		}
		return &store.ClaimRefusedError{}
	case store.OwnSettlement(set, &res.Entry):
		return nil
	case res.State == store.ClaimUnknown && !errors.Is(res.Err, store.ErrFingerprintMismatch):
		return res.Err
	}
	return &store.ClaimRefusedError{Result: res}
}

// one makes one settlement that is not transactional.
func (s *Store) one(ctx context.Context, set *store.Settlement) error {
	if errs := s.Settle(ctx, []store.Settlement{*set}); errs != nil {
		return errs[0]
	}
	return nil
}

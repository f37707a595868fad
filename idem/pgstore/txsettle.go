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

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/network/silence"
)

// settleEffects starts the settlements of ss that commit an effect. wait returns when all of them are settled.
func (s *Store) settleEffects(ctx context.Context, ss []store.Settlement, errs []error) (wait func()) {
	var all sync.WaitGroup
	var enlisted []int
	for i := range ss {
		switch e, ok := ss[i].Effect.(*effect); {
		case ss[i].Effect == nil:
		case !ok || e.store != s:
			errs[i] = &store.RejectedError{Err: fmt.Errorf("pgstore: the effect is a %T: want the store's own",
				ss[i].Effect)}
		case e.begun:
			all.Go(func() { errs[i] = s.settleTransaction(ctx, &ss[i], e) })
		default:
			enlisted = append(enlisted, i)
		}
	}
	if len(enlisted) > 0 {
		all.Go(func() { s.settleGroups(ctx, ss, enlisted, errs) })
	}
	return all.Wait
}

func (s *Store) settleTransaction(ctx context.Context, set *store.Settlement, e *effect) error {
	conn := e.take()
	if conn == nil {
		return s.settleAgain(ctx, set)
	}
	err := s.commit(ctx, set, e.enlisted, conn)
	e.end(conn) // first, because the pool may have no other connection
	if !errors.Is(err, errNotHeld) {
		return err
	}
	return s.refusedCompletion(ctx, set)
}

// errNotHeld means that the owner no longer holds the key. The handler's writes are undone.
var errNotHeld = errors.New("pgstore: the completion was refused")

// commit executes what is enlisted, completes the key and commits, in one round trip. The caller must end the
// connection. A refused completion is an error of the server, so that the COMMIT after it is not executed.
func (s *Store) commit(ctx context.Context, set *store.Settlement, enlisted []statement,
	conn *pgxpool.Conn) error {
	if err := ctx.Err(); err != nil {
		return s.explain("complete", set.Key, err)
	}
	if err := usable(conn.Conn()); err != nil {
		return &store.RejectedError{Err: err}
	}
	n, completed := 0, false
	var batch pgx.Batch
	for i := range enlisted {
		enlisted[i].queue(&batch, func() { n++ })
	}
	batch.Queue(s.sql.completeAll, completeArgs([]store.Settlement{*set}, []int{0})...).Exec(func(pgconn.CommandTag) error {
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
	case !errors.As(err, &said) || said.SeverityUnlocalized != "ERROR":
		// the connection broke: whether the COMMIT was executed is unknown
		return s.explain("complete", set.Key, err)
	case n < len(enlisted):
		return &store.RejectedError{Err: outOfResources(enlisted[n].failed(err), err)}
	case !completed && said.Code == stateDivisionByZero:
		return errNotHeld
	case !completed && !strings.HasPrefix(said.Code, "40"):
		// an error of the completion itself, not a conflict of the handler's writes
		return s.explain("complete", set.Key, err)
	}
	return &store.RejectedError{Err: fmt.Errorf(
		"pgstore: the transaction was not committed, and the handler's writes were rolled back: %w",
		outOfResources(err, err))}
}

// settleAgain retries a completion whose transaction has ended, after its reply was lost. The completion was
// applied, or it never will be: settleAgain releases the key, which waits for a COMMIT in progress and makes
// the server refuse a later one.
func (s *Store) settleAgain(ctx context.Context, set *store.Settlement) error {
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
		&store.FencedError{Key: set.Key, Token: set.Token, Current: found.entry})
}

// one makes one settlement that is not transactional.
func (s *Store) one(ctx context.Context, set *store.Settlement) error {
	if errs := s.Settle(ctx, []store.Settlement{*set}); errs != nil {
		return errs[0]
	}
	return nil
}

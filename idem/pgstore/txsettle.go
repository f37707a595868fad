package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/network/silence"
	"github.com/idemsk/idemsk/internal/pg/pgtrip"
)

// settleEffects starts the settlements of ss that commit an effect. wait returns when all of them are
// settled.
func (s *Store) settleEffects(ctx context.Context, ss []store.Settlement, errs []error) (wait func()) {
	var all sync.WaitGroup
	var enlisted []int
	calls := make(map[*effect][]int)
	for i := range ss {
		switch e, ok := ss[i].Effect.(*effect); {
		case ss[i].Effect == nil:
		case !ok || e.store != s:
			errs[i] = &store.RejectedError{Err: fmt.Errorf("pgstore: the effect is a %T: want the store's own",
				ss[i].Effect)}
		case e.call:
			calls[e] = append(calls[e], i)
		case e.begun:
			all.Go(func() { s.settleTransaction(ctx, ss, []int{i}, e, errs) })
		case e.changes():
			all.Go(func() { errs[i] = s.settleEnlisted(ctx, ss, i) })
		default:
			enlisted = append(enlisted, i)
		}
	}
	for e, members := range calls {
		all.Go(func() { s.settleTransaction(ctx, ss, members, e, errs) })
	}
	if len(enlisted) > 0 {
		all.Go(func() { s.settleGroups(ctx, ss, enlisted, errs) })
	}
	return all.Wait
}

// settleTransaction settles the completions with these indices, which have one effect: that of a handler, or
// of a call of a handler for all of them.
func (s *Store) settleTransaction(ctx context.Context, ss []store.Settlement, members []int, e *effect,
	errs []error) {
	conn, err := e.toCommit(ctx)
	switch {
	case err == nil && conn == nil:
		s.settleEnded(ctx, ss, members, errConnection, errs)
		return
	case err == nil:
		err = s.commit(ctx, ss, members, e, conn)
		e.end(conn, err == nil) // first, because the pool may have no other connection
	}
	var failed *notCompletedError
	switch {
	case errors.Is(err, errNotHeld):
		s.whyNotHeld(ctx, ss, members, errOthers, errs)
		return
	case errors.As(err, &failed):
		s.settleEnded(ctx, ss, members, failed.err, errs)
		return
	}
	for _, i := range members {
		if errs[i] = err; err != nil && !errors.Is(err, store.ErrRejected) {
			errs[i] = s.explain("complete", ss[i].Key, err)
		}
	}
}

// errOthers means that an owner holds its key, but another key of its call was taken.
var errOthers = errors.New("pgstore: the transaction of the call was rolled back: " +
	"another owner has taken one of the keys")

// whyNotHeld sets the errors of completions of one transaction that was rolled back: why is that of those whose
// owners hold their keys.
func (s *Store) whyNotHeld(ctx context.Context, ss []store.Settlement, members []int, why error, errs []error) {
	seen, err := s.lookAt(ctx, keysOf(ss, members))
	for _, i := range members {
		if err == nil && completable(&ss[i], seen) {
			errs[i] = &store.RejectedError{Err: why}
		} else {
			errs[i] = s.whyOne(&ss[i], seen, err)
		}
	}
}

// errNotHeld means that the owner no longer holds the key. The handler's writes are undone.
var errNotHeld = errors.New("pgstore: the completion was refused")

// notCompletedError means that a completion failed, and that the transaction was rolled back. The store may be the
// cause, or what the handler has done with the transaction, such as another role or search path.
type notCompletedError struct{ err error }

func (e *notCompletedError) Error() string { return e.err.Error() }

// commit completes the keys, executes what is enlisted and commits, in one round trip. It leaves the connection as
// it was before the handler, or closes it. The caller must end the connection. A refused completion is an error of
// the server, so that the COMMIT after it is not executed. An error is errNotHeld, a *notCompletedError or a
// *store.RejectedError if nothing was committed; any other leaves that unknown.
func (s *Store) commit(ctx context.Context, ss []store.Settlement, members []int, e *effect,
	conn *pgxpool.Conn) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := usable(conn.Conn()); err != nil {
		return &store.RejectedError{Err: err}
	}
	var r request
	r.completions(s.sql, ss, members)
	for k := range e.enlisted {
		r.enlisted(&e.enlisted[k], noSettlement, k)
	}
	r.add(step{kind: ofEnd, of: noSettlement}, `COMMIT`)
	r.reset(e.known, ofConnection)
	r.add(ofConnection, setRoles, e.known.session, e.known.role)
	r.add(ofConnection, hasRest, e.known.rest)
	err := s.pool.On(ctx, s.limit, conn.Conn(), func(w *silence.Watch, conn *pgx.Conn) error {
		err := r.send(w, conn)
		if committed := r.end.String() == "COMMIT"; committed && (err != nil || r.last.RowsAffected() == 0) {
			setBack(w, conn, e.known)
			return nil //nolint:nilerr // the error is of the reset
		}
		return err
	})
	failed := r.failed(err)
	switch {
	case err == nil && r.end.String() == "COMMIT":
		return nil
	case err == nil:
		return fmt.Errorf("the server answered %s to COMMIT", r.end)
	case stateOf(err) == stateIdleTooLong: // the transaction had ended before the completion was sent
		return &store.RejectedError{Err: fmt.Errorf("%w: %w", errConnection, err)}
	case pgtrip.IsUnsent(err):
		return &store.RejectedError{Err: notSent(err)}
	case !reported(err): // the connection broke: whether the COMMIT was executed is unknown
		return err
	case failed.kind == ofStatement:
		return &store.RejectedError{Err: outOfResources(e.enlisted[failed.k].failed(err), err)}
	case failed.kind == ofCompletions && refusing(err):
		return errNotHeld
	case failed.kind == ofCompletions && !strings.HasPrefix(stateOf(err), "40"): // no conflict of the handler's writes
		return &notCompletedError{fmt.Errorf("pgstore: the completion failed in the handler's transaction, "+
			"and the handler's writes were rolled back: does it set another role or search path?: %w", err)}
	}
	return &store.RejectedError{Err: fmt.Errorf(
		"pgstore: the transaction was not committed, and the handler's writes were rolled back: %w",
		outOfResources(err, err))}
}

// settleEnded answers completions whose transaction has ended, of which it is not known whether it was committed.
// If the owners hold their keys, it was not: why is the error then. It tries the completions in a transaction that
// is rolled back, which waits for a COMMIT in progress, and fails if the store can't complete keys at all. If the
// server receives a COMMIT still later, that and the next settlement of the engine exclude each other.
func (s *Store) settleEnded(ctx context.Context, ss []store.Settlement, members []int, why error, errs []error) {
	var r *request
	err := s.send(ctx, s.limit, func(w *silence.Watch, conn *pgx.Conn) error {
		r = new(request)
		r.completions(s.sql, ss, members)
		r.add(step{kind: ofEnd}, `SELECT ('idemsk: a trial ' || now())::integer`)
		return r.send(w, conn)
	})
	if reported(err) && (r.failed(err).kind == ofEnd || refusing(err)) {
		s.whyNotHeld(ctx, ss, members, why, errs)
		return
	}
	for _, i := range members {
		errs[i] = s.explain("complete", ss[i].Key, err)
	}
}

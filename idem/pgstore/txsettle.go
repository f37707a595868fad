package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem/internal/chunks"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/network/silence"
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
		s.settleAgain(ctx, ss, members, errs)
		return
	case err == nil:
		err = s.commit(ctx, ss, members, e.enlisted, conn)
		e.end(conn) // first, because the pool may have no other connection
	}
	if errors.Is(err, errNotHeld) {
		s.whyNotHeld(ctx, ss, members, errs)
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

// whyNotHeld sets the errors of completions of one transaction, of which some were refused.
func (s *Store) whyNotHeld(ctx context.Context, ss []store.Settlement, members []int, errs []error) {
	seen, err := s.lookAt(ctx, keysOf(ss, members))
	for _, i := range members {
		if err == nil && len(members) > 1 && completable(&ss[i], seen) {
			errs[i] = &store.RejectedError{Err: errOthers}
		} else {
			errs[i] = s.whyOne(&ss[i], seen, err)
		}
	}
}

// errNotHeld means that the owner no longer holds the key. The handler's writes are undone.
var errNotHeld = errors.New("pgstore: the completion was refused")

// maxCompletions is the maximum number of completions in one statement of a transaction.
const maxCompletions = 1000

// commit executes what is enlisted, completes the keys and commits, in one round trip. The caller must end
// the connection. A refused completion is an error of the server, so that the COMMIT after it is not
// executed. An error is errNotHeld or a *store.RejectedError if nothing was committed; any other leaves that
// unknown.
func (s *Store) commit(ctx context.Context, ss []store.Settlement, members []int, enlisted []statement,
	conn *pgxpool.Conn) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := usable(conn.Conn()); err != nil {
		return &store.RejectedError{Err: err}
	}
	n, completed := 0, false
	var batch pgx.Batch
	for i := range enlisted {
		enlisted[i].queue(&batch, func() { n++ })
	}
	// in the order of their keys: see byKey. Of a statement's keys, those that must be absent come first.
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b int) int { return strings.Compare(ss[a].Key, ss[b].Key) })
	for from, to := range chunks.Of(len(members), maxCompletions,
		func(n int) int { return len(ss[members[n]].Result) }) {
		s.sql.queueAll(&batch, ss, members[from:to], func() { completed = to == len(members) })
	}
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
		return err
	case n < len(enlisted):
		return &store.RejectedError{Err: outOfResources(enlisted[n].failed(err), err)}
	case !completed && refusing(err):
		return errNotHeld
	case !completed && !strings.HasPrefix(said.Code, "40"):
		// an error of the completion itself, not a conflict of the handler's writes
		return err
	}
	return &store.RejectedError{Err: fmt.Errorf(
		"pgstore: the transaction was not committed, and the handler's writes were rolled back: %w",
		outOfResources(err, err))}
}

// entryOf returns the entry that refused a settlement.
func entryOf(err error) *store.Entry {
	if fenced, ok := errors.AsType[*store.FencedError](err); ok {
		return &fenced.Current
	}
	if refused, ok := errors.AsType[*store.ClaimRefusedError](err); ok {
		return &refused.Result.Entry
	}
	return nil
}

// settleAgain retries completions whose transaction has ended, after its reply was lost. All of them were
// applied, or they never will be: settleAgain releases their keys, which waits for a COMMIT in progress and
// makes the server refuse a later one.
func (s *Store) settleAgain(ctx context.Context, ss []store.Settlement, members []int, errs []error) {
	releases := make([]store.Settlement, len(members))
	for n, i := range members {
		set := &ss[i]
		releases[n] = store.Settlement{
			Op: store.OpRelease, Key: set.Key, Token: set.Token, Owner: set.Owner, Retention: set.Retention,
			Failure: &store.Failure{Code: store.CodeError, Message: errConnection.Error()}, Claim: set.Claim,
		}
	}
	answers := s.Settle(ctx, releases)
	var released []int
	for n, i := range members {
		if answers == nil || answers[n] == nil {
			released = append(released, i)
		} else if seen := entryOf(answers[n]); seen == nil || !store.OwnSettlement(&ss[i], seen) {
			errs[i] = answers[n]
		}
	}
	if len(released) == 0 {
		return
	}
	seen, err := s.lookAt(ctx, keysOf(ss, released))
	for _, i := range released {
		set, found := &ss[i], seen[ss[i].Key]
		errs[i] = fmt.Errorf("pgstore: complete %q: %w: %w", set.Key,
			errors.Join(errConnection, err, found.foreign),
			&store.FencedError{Key: set.Key, Token: set.Token, Current: found.entry})
	}
}

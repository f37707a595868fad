package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

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
	for from, to := range chunks.Of(len(enlisted), s.groups.size(),
		func(n int) int { return len(ss[enlisted[n]].Result) }) {
		s.settleGroup(ctx, ss, enlisted[from:to], errs)
	}
}

// settleGroup settles a group. A completion that is refused, or whose statement failed, is settled alone, and the
// others are sent again without it.
func (s *Store) settleGroup(ctx context.Context, ss []store.Settlement, group []int, errs []error) {
	left := slices.Clone(group)
groups:
	for len(left) > 1 {
		n, err := s.tryGroup(ctx, ss, left)
		at, _ := place(ss, left, n)
		switch {
		case err == nil:
			return
		case !reported(err), at == completions && !refusing(err) && !conflicting(err):
			for _, i := range left {
				errs[i] = s.explain("complete", ss[i].Key, err)
			}
			return
		case conflicting(err), at == theEnd: // it is an error of none of them
			break groups
		case at == completions:
			held := s.heldOf(ctx, ss, left, errs)
			if len(held) == len(left) {
				break groups
			}
			left = held
		default:
			errs[left[at]] = s.settleEnlisted(ctx, ss, left[at])
			left = slices.Delete(left, at, at+1)
		}
	}
	for _, i := range left {
		errs[i] = s.settleEnlisted(ctx, ss, i)
	}
}

// groupSize bounds the completions of a group. The server sends no answer before the end of a group, so a group
// whose statements take longer than a round trip may is never answered: the next one has half of its size. A
// group of the present size that is answered doubles it again. The zero value is no bound.
type groupSize struct{ less atomic.Int32 }

// size returns the maximum number of completions in a group.
func (g *groupSize) size() int { return maxBatchSize - int(g.less.Load()) }

// answered notes the result of a group of n completions.
func (g *groupSize) answered(n int, err error) {
	size := g.size()
	switch silent := new(silence.Error); {
	case errors.As(err, &silent):
		size = max(1, n/2) //nolint:mnd // half
	case err == nil && n >= size:
		size = min(2*size, maxBatchSize) //nolint:mnd // see groupSize
	}
	g.less.Store(int32(maxBatchSize - size))
}

// completable reports whether the entries that were read let a completion through: its owner holds the key, or
// its key is absent if it has to be.
func completable(set *store.Settlement, seen map[string]sighting) bool {
	found, there := seen[set.Key]
	if set.Claim != nil {
		return !there
	}
	return there && found.foreign == nil && store.Holds(set, &found.entry)
}

// heldOf returns the completions of a group that are not to be refused, and sets the errors of the others.
func (s *Store) heldOf(ctx context.Context, ss []store.Settlement, group []int, errs []error) (held []int) {
	seen, err := s.lookAt(ctx, keysOf(ss, group))
	for _, i := range group {
		if err == nil && completable(&ss[i], seen) {
			held = append(held, i)
		} else {
			errs[i] = s.whyOne(&ss[i], seen, err)
		}
	}
	return held
}

// reported reports whether err is an error that the server reported of a statement, and not one that ended the
// connection.
func reported(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && said.SeverityUnlocalized == "ERROR"
}

// tryGroup sends a group. n is how many statements the server has executed, the completions being the last one.
func (s *Store) tryGroup(ctx context.Context, ss []store.Settlement, group []int) (n int, err error) {
	err = s.send(ctx, s.limit, func(w *silence.Watch, conn *pgx.Conn) error {
		n = 0
		done := func() { w.Heard(); n++ }
		var batch pgx.Batch
		for _, i := range group {
			enlisted := enlistedBy(&ss[i])
			for k := range enlisted {
				enlisted[k].queue(&batch, done)
			}
		}
		s.sql.queueAll(&batch, ss, group, done)
		return conn.SendBatch(w.Context(), &batch).Close()
	})
	s.groups.answered(len(group), err)
	return n, err
}

// The places of an error that is none of an enlisted statement.
const (
	completions = -1 // the completions
	theEnd      = -2 // the end of the transaction
)

// place returns where the server reported an error after n statements: the place in the group and the number of
// the enlisted statement, or completions or theEnd. If at and k are 0, it may be an error of preparing any
// statement.
func place(ss []store.Settlement, group []int, n int) (at, k int) {
	for at, i := range group {
		if enlisted := len(enlistedBy(&ss[i])); n < enlisted {
			return at, n
		} else {
			n -= enlisted
		}
	}
	if n == 0 {
		return completions, 0
	}
	return theEnd, 0
}

// enlistedBy returns what a handler has enlisted.
func enlistedBy(set *store.Settlement) []statement {
	e, _ := set.Effect.(*effect)
	return e.enlisted
}

// settleEnlisted settles one completion in a transaction of its own.
func (s *Store) settleEnlisted(ctx context.Context, ss []store.Settlement, i int) error {
	set, group := &ss[i], []int{i}
	n, err := s.tryGroup(ctx, ss, group)
	at, k := place(ss, group, n)
	switch {
	case err == nil:
		return nil
	case !reported(err):
		return s.explain("complete", set.Key, err)
	case at == completions && refusing(err):
		return s.refusedCompletion(ctx, set)
	case at == completions && !strings.HasPrefix(stateOf(err), "40"):
		return s.explain("complete", set.Key, err)
	}
	seen, there, unread := s.lookAtOne(ctx, set.Key)
	switch {
	case unread == nil && there && store.OwnSettlement(set, &seen.entry):
		return nil // an earlier try was committed, and its answer was lost: the statements met their own effects
	case unread != nil: // it is not known; or the table can't be used, which is no error of the handler's statement
		return s.explain("complete", set.Key, err)
	case at == 0:
		return &store.RejectedError{Err: notTheHandlers(enlistedBy(set)[k].failed(err), err)}
	}
	return &store.RejectedError{Err: fmt.Errorf("pgstore: nothing was committed: %w", notTheHandlers(err, err))}
}

// notTheHandlers marks an error as unavailable if it is none of the handler's statements: the server lacked
// resources, was read-only or being stopped, or other transactions were in conflict with all tries.
func notTheHandlers(err, said error) error {
	if state := stateOf(said); conflicting(said) || state == stateReadOnly || strings.HasPrefix(state, "57P") {
		return idem.Unavailable(err)
	}
	return outOfResources(err, said)
}

// outOfResources marks an error as unavailable if the server lacked disk or memory.
func outOfResources(err, said error) error {
	if strings.HasPrefix(stateOf(said), "53") {
		return idem.Unavailable(err)
	}
	return err
}

// refusedCompletion returns why a completion was refused, nil if it was applied before.
func (s *Store) refusedCompletion(ctx context.Context, set *store.Settlement) error {
	seen, err := s.lookAt(ctx, []string{set.Key})
	return s.whyOne(set, seen, err)
}

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
	"github.com/idemsk/idemsk/internal/pg/pgtrip"
)

// A group is completions whose handlers have enlisted statements and have no connection. The completions and
// statements of a group are sent in one round trip without BEGIN and COMMIT: the server executes what comes
// before one Sync as one transaction. A completion that is refused is an error of the server. So nothing is
// committed unless everything is, and a group that is sent again after its answer was lost commits nothing
// twice: its completions are refused then. They come first, so no statement can make them fail.

// settleGroups settles the completions with these indices, which have enlisted statements only.
func (s *Store) settleGroups(ctx context.Context, ss []store.Settlement, enlisted []int, errs []error) {
	for from, to := range chunks.Of(len(enlisted), s.groups.size(),
		func(n int) int { return len(ss[enlisted[n]].Result) }) {
		parts := []part{slices.Clone(enlisted[from:to])}
		for ; len(parts) > 0; parts = parts[1:] {
			switch p := parts[0]; len(p) {
			case 0:
			case 1:
				errs[p[0]] = s.settleEnlisted(ctx, ss, p[0])
			default:
				parts = append(parts, s.settlePart(ctx, ss, p, errs)...)
			}
		}
	}
}

// part is the indices of completions of a group that are sent together.
type part []int

// halves divides a part that fails because of an unknown one of its completions.
func (p part) halves() []part {
	n := len(p) / 2 //nolint:mnd // half
	return []part{p[:n:n], p[n:]}
}

// around divides a part that fails because of one of its completions: into those before and after it, and it. Those
// after it may fail too.
func (p part) around(i int) []part {
	at := slices.Index(p, i)
	return []part{p[:at:at], p[at+1:], {i}}
}

// without divides a part into the completions that are not among these, and these alone, which are settled last.
func (p part) without(these ...int) []part {
	others := slices.DeleteFunc(slices.Clone(p), func(i int) bool { return slices.Contains(these, i) })
	return append([]part{others}, part(these).alone()...)
}

// alone divides a part into its completions.
func (p part) alone() (parts []part) {
	for _, i := range p {
		parts = append(parts, part{i})
	}
	return parts
}

// settlePart settles a part of a group. If it fails because of one completion, that says nothing about the others:
// it returns the parts that are to be settled next, after those that wait.
func (s *Store) settlePart(ctx context.Context, ss []store.Settlement, p part, errs []error) (next []part) {
	failed, err := s.tryPart(ctx, ss, p)
	switch {
	case err == nil:
		return nil
	case pgtrip.IsUnsent(err):
		return s.unsentPart(ctx, ss, p, errs)
	case brokenOff(ctx, err):
		return p.halves()
	case !reported(err):
	case failed.kind == ofSettings:
		return s.otherSettings(p, failed)
	case failed.kind == ofStatement && conflicting(err):
		return p.around(failed.of)
	case failed.kind == ofStatement:
		return p.without(withStatement(ss, p, failed, err)...)
	case failed.kind == ofEnd, conflicting(err):
		return p.halves()
	case refusing(err):
		if held := s.heldOf(ctx, ss, p, errs); len(held) < len(p) {
			return []part{held}
		}
		return p.halves()
	}
	for _, i := range p {
		errs[i] = s.explain("complete", ss[i].Key, err)
	}
	return nil
}

// withStatement returns the completions of a part that fail because of a statement: one, or each that has this
// statement if the server can't prepare it.
func withStatement(ss []store.Settlement, p part, failed step, err error) (these []int) {
	if !isPreparing(err) {
		return []int{failed.of}
	}
	text := effectIn(&ss[failed.of]).enlisted[failed.k].text
	for _, i := range p {
		if slices.ContainsFunc(effectIn(&ss[i]).enlisted, func(st statement) bool { return st.text == text }) {
			these = append(these, i)
		}
	}
	return these
}

// unsentPart rejects the completions of which a statement can't be encoded.
func (s *Store) unsentPart(ctx context.Context, ss []store.Settlement, p part, errs []error) []part {
	unsent, err := s.unsent(ctx, ss, p)
	if err != nil || len(unsent) == 0 {
		return p.halves()
	}
	var others part
	for _, i := range p {
		if errs[i] = unsent[i]; errs[i] == nil {
			others = append(others, i)
		}
	}
	return []part{others}
}

// otherSettings returns how a part is settled in which what resetSettings leaves was changed: by a record, or before,
// on a connection that was set back and closed now.
func (s *Store) otherSettings(p part, failed step) []part {
	if failed == ofConnection {
		return p.halves()
	}
	return p.without(failed.of)
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
	switch {
	case isSilence(err):
		size = max(1, n/2) //nolint:mnd // half
	case err == nil && n >= size:
		size = min(2*size, maxBatchSize) //nolint:mnd // see groupSize
	}
	g.less.Store(int32(maxBatchSize - size))
}

// completable reports whether the entries that were read let a completion through: its owner holds the key.
func completable(set *store.Settlement, seen map[string]sighting) bool {
	found, there := seen[set.Key]
	return there && found.foreign == nil && store.Holds(set, &found.entry)
}

// heldOf returns the completions of a group that are not to be refused, and sets the errors of the others.
func (s *Store) heldOf(ctx context.Context, ss []store.Settlement, group part, errs []error) (held part) {
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

// isSilence reports whether an answer did not come in time.
func isSilence(err error) bool {
	silent := new(silence.Error)
	return errors.As(err, &silent)
}

// brokenOff reports whether a connection broke, or was silent, while a request was on its way. A statement may be
// the cause.
func brokenOff(ctx context.Context, err error) bool {
	var connecting *pgconn.ConnectError
	return ctx.Err() == nil && !reported(err) && transient(err) && !errors.As(err, &connecting)
}

// tryPart sends a part of a group, or a completion in a transaction of its own. A part that would wait as long as
// before is not sent again.
func (s *Store) tryPart(ctx context.Context, ss []store.Settlement, p part) (failed step, err error) {
	shared := len(p) > 1
	changes := !shared && effectIn(&ss[p[0]]).changes()
	known, err := s.settings(ctx)
	if err != nil {
		return failed, err
	}
	again := func(err error) bool {
		return transient(err) && (!shared || !isSilence(err) && stateOf(err) != stateLockTimeout)
	}
	err = retry(ctx, again, func() error {
		return s.pool.RoundTrip(ctx, s.limit, func(w *silence.Watch, conn *pgx.Conn) error {
			r := s.requestOf(ss, p, known, changes)
			err := r.send(w, conn)
			switch {
			case err == nil && changes:
				closeUnlessSame(w, conn, known)
			case err != nil:
				if failed = r.failed(err); failed == ofConnection {
					setBack(w, conn, known)
				}
			}
			return err
		})
	})
	s.groups.answered(len(p), err)
	return failed, err
}

// ofConnection is the reset and the comparison before the first record, which are of what the connection has.
var ofConnection = step{kind: ofSettings, of: noSettlement}

// requestOf returns the request of a part. Settings are reset and compared before and after each record. Of a record
// alone they are compared after each statement, so that it is known which one changes what resetSettings leaves.
func (s *Store) requestOf(ss []store.Settlement, p part, known *settings, changes bool) *request {
	r := new(request)
	r.begin(known)
	r.completions(s.sql, ss, p)
	for _, i := range p {
		enlisted := effectIn(&ss[i]).enlisted
		for k := range enlisted {
			r.enlisted(&enlisted[k], i, k)
			if len(p) == 1 && !changes {
				r.add(step{ofSettings, i, k}, sameRest, known.rest)
			}
		}
		what := step{kind: ofSettings, of: i, k: noStatement}
		if len(p) == 1 {
			r.reset(known, what)
		} else {
			r.resetAndCompare(known, what)
		}
	}
	return r
}

// effectIn returns the effect of a completion.
func effectIn(set *store.Settlement) *effect {
	e, _ := set.Effect.(*effect)
	return e
}

// settleEnlisted settles one completion in a transaction of its own.
func (s *Store) settleEnlisted(ctx context.Context, ss []store.Settlement, i int) error {
	set, alone := &ss[i], part{i}
	failed, err := s.tryPart(ctx, ss, alone)
	for n := 0; n < maxTries && reported(err) && failed.kind == ofSettings; n++ {
		if failed != ofConnection && failed.k != noStatement {
			effectIn(set).enlisted[failed.k].text.changes.Store(true)
		}
		failed, err = s.tryPart(ctx, ss, alone)
	}
	switch {
	case err == nil:
		return nil
	case pgtrip.IsUnsent(err):
		if unsent, _ := s.unsent(ctx, ss, alone); unsent[i] != nil {
			return unsent[i]
		}
		return &store.RejectedError{Err: notSent(err)}
	case reported(err) && failed.kind == ofCompletions && refusing(err):
		return s.refusedCompletion(ctx, set)
	case !reported(err), failed.kind == ofCompletions:
		return s.explain("complete", set.Key, err)
	case failed == ofConnection:
		return &store.RejectedError{Err: idem.Unavailable(fmt.Errorf("%w: %w", errUnusual, err))}
	case failed.kind == ofStatement:
		return &store.RejectedError{Err: notTheHandlers(effectIn(set).enlisted[failed.k].failed(err), err)}
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

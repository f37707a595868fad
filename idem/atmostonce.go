package idem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// This file has what Config.AtMostOnce adds. An attempt has begun when its key is claimed, because nothing is
// claimed ahead. It has ended when its key is COMPLETED, FAILED or released. So a key of which an attempt has
// begun and not ended is STARTED, not released, and its lease is over. Only a claim with TakeOver takes such
// a key (rule 7), and such a claim leads to a dead letter. ClaimResult.Stolen does not decide: a store that
// recognises a request that was sent twice (rule 5) does not know it any more.

// atMostOnce is what a claim remembers.
type atMostOnce struct {
	unended *store.Entry // of the attempt that the claim takes over
	opens   bool         // the key FAILED with a known outcome, so a redrive may open it
}

// refuses returns an error for a task that could not end as a dead letter.
func (e *Engine) refuses(task *Task) error {
	if !e.cfg.AtMostOnce || task.DeadLetters != nil {
		return nil
	}
	return fmt.Errorf("%w: AtMostOnce needs them: set Task.DeadLetters of the task from %s", ErrNoDeadLetters,
		cmp.Or(task.Source, "an unknown source"))
}

// unended reports whether a claimed key may be one of which an attempt has begun and not ended, so that the
// task must end as a dead letter.
func (e *Engine) unended(claim *claim) bool { return e.takesUnended(claim) && !claim.Task.Rejected }

// takesUnended reports whether a claim has taken over a key of which an attempt may have begun and not ended.
// The key has counted at least that attempt. A rejected task does not release it: the next task with the key
// may have a handler, as that of a record without a key, which is identified later by its place.
func (e *Engine) takesUnended(claim *claim) bool {
	return e.cfg.AtMostOnce && claim.hold.takesOver && claim.res.Entry.Attempts > 1
}

// noteUnended keeps the entries of attempts that have not ended, for their dead letters.
func noteUnended(claims []*claim) {
	for _, claim := range claims {
		if claim.res.State == store.ClaimLeaseOver {
			seen := claim.res.Entry
			claim.atMostOnce.unended = &seen
		}
	}
}

// redriveToken returns the token by which a claim opens a FAILED key. A key whose outcome is unknown is not
// opened, so the first claim does not carry it.
func (e *Engine) redriveToken(claim *claim) int64 {
	if e.cfg.AtMostOnce && !claim.atMostOnce.opens {
		return 0
	}
	return claim.Task.RedriveToken
}

// opening returns the claims of redriven tasks that are to be sent again, with their tokens, because their keys
// FAILED with a known outcome.
func opening(claims []*claim) (failed []*claim) {
	for _, claim := range claims {
		entry := &claim.res.Entry
		opens := claim.res.State == store.ClaimFailed && entry.Token == claim.Task.RedriveToken &&
			valueOf(entry.Failure).Code != store.CodeOutcomeUnknown
		if opens && !claim.atMostOnce.opens {
			claim.atMostOnce.opens = true
			failed = append(failed, claim)
		}
	}
	return failed
}

// unsettled reports whether nothing tells how the unknown outcome of a redriven task was settled, so that it must
// end as a dead letter again. An operator who lets a task be handled again leaves a failure in the entry
// (store.CodeResolved), and attempts after that leave theirs. A key without an entry, because its retention is
// over or because it is another key than that of the dead letter, has none.
func (e *Engine) unsettled(claim *claim) bool {
	return e.cfg.AtMostOnce && claim.Task.OutcomeUnknown && !claim.Task.Rejected && !claim.atMostOnce.opens &&
		claim.res.Entry.Failure == nil
}

// errUnsettled is the reason of the dead letter of an unsettled task.
var errUnsettled = errors.New("the redriven dead letter is of an attempt that may have had its effect, and the key has no " +
	"entry that tells how that was settled: find out, run idemsk resolve, and then redrive this dead letter")

// atMostOnce reports whether the handler must not be called again if it may have had its effect.
func (x *execution) atMostOnce() bool { return x.cfg().AtMostOnce && !x.claim.Task.Rejected }

// mayHaveEffect reports whether a handler may have had its effect although it returned an error: the error
// leaves that open, or the handler was cancelled and marked no error.
func mayHaveEffect(handlers context.Context, err error) bool {
	var mark *classified
	marked := errors.As(err, &mark) && !thrown(err, mark)
	return leavesOpen(err) || handlers.Err() != nil && !marked
}

// leavesOpen reports whether an error, or one of those that it wraps or joins, leaves the effect open: it is
// marked by OutcomeUnknown, or as a call with other tasks that failed with an error that Unavailable does not
// mark, or it is a panic, a timeout or a cancellation, by its method Timeout or Is. Any other mark is the
// handler's decision that what it wraps had no effect. It decides nothing about an error that is joined to it.
func leavesOpen(err error) bool {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case *classified:
		return e.unknown || e.class == callFailed && (leavesOpen(e.err) || !IsUnavailable(e.err))
	case *PanicError:
		return true
	case interface{ Timeout() bool }:
		if e.Timeout() {
			return true
		}
	}
	if is, ok := err.(interface{ Is(target error) bool }); ok &&
		(is.Is(context.DeadlineExceeded) || is.Is(context.Canceled)) {
		return true
	}
	switch e := err.(type) { //nolint:errorlint // as above
	case interface{ Unwrap() error }:
		return leavesOpen(e.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), leavesOpen)
	}
	return errors.Is(err, context.Canceled)
}

// outcomeUnknown sends the dead letter of an attempt that may have had its effect, and fails the key.
func (x *execution) outcomeUnknown(cause error) {
	x.deadLetter(&outcomeError{cause}, nil)
}

// keep leaves the key claimed, so that the next owner finds an attempt that has not ended.
func (x *execution) keep(err error) {
	x.out.Kind, x.out.Err, x.out.RetryIn = Retry, err, x.cfg().Lease
}

// begunError describes the attempt of a claim whose handler has returned.
func (claim *claim) begunError(err error) error {
	return fmt.Errorf("attempt %d of owner %s, token %d, began at %s and ended with: %w",
		claim.res.Entry.Attempts, claim.hold.owner, claim.res.Entry.Token, stamp(claim.hold.claimedAt), err)
}

// unendedError describes the attempt that a claim takes over.
func (a *atMostOnce) unendedError() error {
	seen := a.unended
	if seen == nil {
		return errors.New("an earlier attempt did not end, and what is known of it was not read")
	}
	return fmt.Errorf("attempt %d of owner %s, token %d, from %s, did not end: its process died, or the store "+
		"did not get its result; the key was claimed first at %s, and the lease ended at %s", seen.Attempts,
		seen.Owner, seen.Token, cmp.Or(seen.Source, "an unknown source"), stamp(seen.CreatedAt),
		stamp(seen.LeaseUntil))
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

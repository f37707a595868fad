package idem

import (
	"context"
	"sync"

	"github.com/idemsk/idemsk/idem/store"
)

// begun is a task whose handler may be called, by the caller of session.Begin.
type begun struct {
	execution
	done    func(out Outcome, more bool)
	grouped bool // its completion is sent with others; it has a place in the window
}

// Begin begins tasks whose handlers the caller calls, for example one handler for all. Those that it returns
// must end with session.Return. It returns nil for a task that has ended without its handler, and done was
// called for it. For the others, done is called as by RunAsync. At most Config.CommitWindow tasks may have
// begun and not ended: Begin waits for others.
func (s *session) Begin(claims []*claim, done func(i int, out Outcome, more bool)) []*begun {
	begun := make([]*begun, len(claims))
	var waiting sync.WaitGroup // for answers
	defer waiting.Wait()
	for i, claim := range claims {
		b := newBegun(s, claim, func(out Outcome, more bool) { done(i, out, more) })
		b.askForTurn()
		begin := func() {
			if b.begin() {
				begun[i] = b
			}
		}
		if b.beginsAtOnce() {
			begin()
		} else {
			waiting.Go(begin)
		}
	}
	return begun
}

// Context returns the context for the handler. It ends when the claim is lost.
func (b *begun) Context() context.Context { return b.ctx }

// Withdraw ends a task whose handler is not called: because of an earlier one of its lane, if behind is set, or
// because its claim is lost. The attempt is given back. Withdraw waits for the answer.
func (b *begun) Withdraw(behind bool) {
	defer b.leaveUnless(false)
	b.out.Kind = NotStarted
	if b.out.Err = context.Cause(b.ctx); behind {
		b.out.Kind, b.out.Err = Behind, nil
	}
	b.end(nil)
	if b.handler != nil {
		_ = b.claim.hold.beat.returned() // the handler counts as returned
		b.refund(nil, 0)
	}
	b.claim.stopHeartbeat()
	b.claim.reset()
	b.session.engine.outage.undecided(b.claim.key)
	b.done(b.out, false)
}

// Return ends tasks whose handlers have returned results. The completions without an effect are sent together,
// and Return does not wait for their answers. For a task that must wait for an answer, it returns a function,
// which the caller must call, also in another goroutine; nil for the others.
func (s *session) Return(begun []*begun, result func(i int) (value []byte, err error)) (rest []func()) {
	rest = make([]func(), len(begun))
	together := make([]commit, 0, len(begun))
	for i, b := range begun {
		value, effect, err := b.call(HandlerFunc(func(context.Context) ([]byte, error) { return result(i) }))
		if b.settlesAtOnce(effect, err) {
			b.settle(value, effect, err, func(one commit) { together = append(together, one) })
		} else {
			rest[i] = func() { b.settle(value, effect, err, s.commits.add) }
		}
	}
	s.commits.addTogether(together)
	return rest
}

func newBegun(s *session, claim *claim, done func(out Outcome, more bool)) *begun {
	return &begun{execution: newExecution(s, claim), done: done}
}

// begin begins the task, and waits for its place in the window.
func (b *begun) begin() bool {
	b.grouped = b.claim.hold.held && b.session.commits.enter(b.session.handlers)
	begun := false
	defer func() { b.leaveUnless(begun) }()
	if begun = b.execution.begin(); !begun {
		b.done(b.out, false)
	}
	return begun
}

// leaveUnless frees the task's place in the window, unless something else frees it. It is deferred, because a
// handler or a sink of dead letters may end its goroutine.
func (b *begun) leaveUnless(taken bool) {
	if b.grouped && !taken {
		b.session.commits.leave()
	}
}

// settlesAtOnce reports whether settle does not wait for an answer.
func (b *begun) settlesAtOnce(effect store.Effect, err error) bool {
	return err == nil && effect == nil && !b.claim.beats() && (b.grouped || b.handler == nil || b.claim.committed != nil)
}

// settle ends the task by the result of its handler. A completion that nothing waits for is queued by add.
func (b *begun) settle(result []byte, effect store.Effect, err error, add func(commit)) {
	taken := false
	defer func() { b.leaveUnless(taken) }()
	set, left := b.returned(result, effect, err)
	switch {
	case !left:
	case b.claim.committed != nil:
		b.settled(set, b.claim.committed.answer)
	case !b.grouped || separate(set.Effect):
		b.settled(set, b.session.send(set))
	case set.Effect != nil:
		taken = true
		b.settled(set, b.session.commits.addAndWait(set))
	default:
		taken = true
		add(commit{set: set, done: func(set store.Settlement, answer settlementAnswer, more bool) {
			b.settled(set, answer)
			b.done(b.out, more)
		}})
		return
	}
	b.done(b.out, false)
}

package idem

import (
	"context"
	"sync"

	"github.com/idemsk/idemsk/idem/store"
)

// Begun is a task whose handler may be called, by the caller of Session.Begin.
type Begun struct {
	execution
	done    func(out Outcome, more bool)
	grouped bool // its completion is sent with others; it has a place in the window
}

// Begin begins tasks whose handlers the caller calls, for example one handler for all. Those that it returns
// must end with Begun.Return. It returns nil for a task that has ended without its handler, and done was
// called for it. For the others, done is called as by RunAsync. At most Config.CommitWindow tasks may have
// begun and not ended: Begin waits for others.
func (s *Session) Begin(claims []*Claim, done func(i int, out Outcome, more bool)) []*Begun {
	begun := make([]*Begun, len(claims))
	var waiting sync.WaitGroup // for answers
	defer waiting.Wait()
	for i, claim := range claims {
		b := newBegun(s, claim, func(out Outcome, more bool) { done(i, out, more) })
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
func (b *Begun) Context() context.Context { return b.ctx }

// Return ends a task whose handler has returned a result. If requests must be answered before, Return returns
// a function that the caller calls, also in another goroutine; otherwise it returns nil. A completion without
// an effect is sent with others, and nothing waits for it.
func (b *Begun) Return(result []byte, err error) (rest func()) {
	result, effect, err := b.call(HandlerFunc(func(context.Context) ([]byte, error) { return result, err }))
	if b.settlesAtOnce(effect, err) {
		b.settle(result, effect, err)
		return nil
	}
	return func() { b.settle(result, effect, err) }
}

func newBegun(s *Session, claim *Claim, done func(out Outcome, more bool)) *Begun {
	return &Begun{execution: execution{session: s, claim: claim, out: claim.outcome()}, done: done}
}

// begin begins the task, and waits for its place in the window.
func (b *Begun) begin() bool {
	b.grouped = b.claim.hold.kind != holdNone && b.session.commits.enter(b.session.handlers)
	if !b.execution.begin() {
		b.ended()
		return false
	}
	return true
}

// ended tells the outcome, and frees the place in the window.
func (b *Begun) ended() {
	b.done(b.out, false)
	b.leave()
}

// leave frees the task's place in the window.
func (b *Begun) leave() {
	if b.grouped {
		b.session.commits.leave()
	}
}

// settlesAtOnce reports whether settle does not wait for an answer.
func (b *Begun) settlesAtOnce(effect store.Effect, err error) bool {
	completes := err == nil || classOf(err).class == resultless
	return completes && effect == nil && (b.grouped || b.handler == nil || b.claim.committed != nil)
}

// settle ends the task by the result of its handler.
func (b *Begun) settle(result []byte, effect store.Effect, err error) {
	set, left := b.returned(result, effect, err)
	switch commits := &b.session.commits; {
	case !left:
	case b.claim.committed != nil:
		b.settled(set, b.claim.committed.answer)
	case !b.grouped || separate(set.Effect):
		b.settled(set, b.session.send(set))
	case set.Effect != nil:
		b.settled(set, commits.addAndWait(set)) // which frees the place
		b.done(b.out, false)
		return
	default:
		commits.add(commit{set: set, done: func(set store.Settlement, answer settlementAnswer, more bool) {
			b.settled(set, answer)
			b.done(b.out, more)
		}})
		return
	}
	b.ended()
}

package idem

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/idemsk/idemsk/idem/observe"
)

// letterTime bounds the sending of a dead letter in a session without a deadline. A shorter lease does not:
// it is extended meanwhile.
const letterTime = 30 * time.Second

// sendDeadLetter returns ErrDeadLetterNotSent (wrapped) with the cause, a panic's too.
func (s *session) sendDeadLetter(task *Task, letter DeadLetter) (err error) {
	began := s.began()
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrDeadLetterNotSent, err)
		}
		s.ended(observe.DeadLetter, task, letter.Attempt, letter.StoredKey, began, err)
	}()
	ctx, cancel := s.letterContext()
	defer cancel()
	return task.DeadLetters.Send(ctx, letter)
}

// letterContext bounds the sending of a dead letter so that a quarter of the margin is left to settle the
// key.
func (s *session) letterContext() (context.Context, context.CancelFunc) {
	if end, ok := s.settling.Deadline(); ok {
		return context.WithDeadline(s.settling, s.engine.cfg.lettersEnd(end))
	}
	return context.WithTimeout(s.settling, letterTime)
}

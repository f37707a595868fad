package kafka

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// Message is one record of a batch, with its outcome.
type Message struct {
	idem.Item
	Record *Record

	processor *Processor
	cluster   string // the record's cluster
	within    Within // nil without Config.Poll
	// what the handler returns without a call: Permanent, or Unavailable if the record can't be identified
	// now
	rejected error
}

// task is a Message as the engine and the scheduler use it: the handler, the dead-letter sink and the substitute
// of its task.
type task struct{ *Message }

// prepare sets the record's redrive token, key and fingerprint.
func (m *Message) prepare(ctx context.Context, p *Processor, r *Record, cluster string) {
	m.processor, m.Record, m.cluster, m.Substitute = p, r, cluster, task{m}
	m.Task = idem.Task{Source: r.Source(), Handler: task{m}}
	if p.cfg.DeadLetters != nil {
		m.Task.DeadLetters = task{m}
	}
	token, unknown, badHeader := readRedrive(r)
	m.Task.RedriveToken, m.Task.OutcomeUnknown = token, unknown
	switch {
	case r.Undecodable != nil:
		m.Task = m.reject(r.Undecodable)
	case badHeader != nil:
		m.Task = m.reject(badHeader)
	default:
		if err := m.identify(ctx); err != nil {
			m.Task = m.reject(err)
		}
	}
}

// identify sets the key and the fingerprint. A panic of the user's functions is an error of the record.
func (m *Message) identify(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("finding the idempotency key or the fingerprint: %w",
				&idem.PanicError{Value: v, Stack: debug.Stack()})
		}
	}()
	cfg := &m.processor.cfg
	key, err := cfg.Key(ctx, m.Record)
	if err == nil && key == "" {
		err = ErrNoKey
	}
	if errors.Is(err, ErrNoKey) && cfg.MissingKey == Process {
		m.Task.Key = m.processor.storedPlace(m.Record)
		return nil
	}
	if err != nil {
		return err
	}
	m.Task.Key = m.processor.storedKey(m.Record, key)
	if m.Task.Fingerprint, err = cfg.Fingerprint(ctx, m.Record); err != nil {
		return fmt.Errorf("the fingerprint can't be computed: %w", err)
	}
	return nil
}

// reject returns a task that sends the message to the dead letters or, if the error is marked by
// idem.Unavailable, leaves it for another delivery. Its entry is stored under the record's place. The entry
// of the record's own key is not changed.
func (m *Message) reject(err error) idem.Task {
	if m.rejected = err; !idem.IsUnavailable(err) {
		m.rejected = idem.Permanent(err)
	}
	t := m.Task
	t.Key, t.Fingerprint, t.Rejected = m.processor.storedPlace(m.Record), store.Fingerprint{}, true
	return t
}

// Handle implements idem.Handler.
func (t task) Handle(ctx context.Context) ([]byte, error) {
	if t.rejected != nil {
		return nil, t.rejected
	}
	if t.within != nil {
		ctx = t.within(ctx)
	}
	return t.processor.each(ctx, *t.Record)
}

// Send implements idem.DeadLetterSink.
func (t task) Send(ctx context.Context, b idem.DeadLetter) error {
	l := newDeadLetter(t.Record, b, t.processor.cfg.Function, t.cluster)
	if t.rejected != nil && t.Task.OutcomeUnknown && t.processor.engine.Config().AtMostOnce {
		l.Error.Code = store.CodeOutcomeUnknown // as in the redriven letter, until the outcome is settled
	}
	return t.processor.cfg.DeadLetters.Send(ctx, l)
}

// SubstituteFor implements idem.Substitute.
func (t task) SubstituteFor(out *idem.Outcome) (idem.Task, bool) {
	err := unfit(out, t.Task.RedriveToken)
	if err == nil || t.rejected != nil {
		return idem.Task{}, false
	}
	return t.reject(err), true
}

// explain adds an error to an outcome for the log: that a record has no attempts left but is retried because
// no dead letters are configured, or that the result of a completed record is not stored.
func (m *Message) explain() {
	if m.State != idem.ItemEnded {
		return
	}
	out, cfg := &m.Outcome, m.processor.engine.Config()
	if out.Kind == idem.Executed && cfg.MaxResult >= 0 && len(out.Result) > cfg.MaxResult {
		out.Err = fmt.Errorf("%w: it has %d bytes, the limit is %d; duplicates get none",
			store.ErrResultNotStored, len(out.Result), cfg.MaxResult)
	}
	exhausted := out.Kind == idem.Retry && cfg.MaxAttempts > 0 && out.Attempt >= cfg.MaxAttempts
	if exhausted && m.processor.cfg.DeadLetters == nil && !errors.Is(out.Err, idem.ErrNoDeadLetters) {
		out.Err = fmt.Errorf("%w: attempt %d, the limit is %d: %w", idem.ErrNoDeadLetters, out.Attempt,
			cfg.MaxAttempts, out.Err)
	}
}

package msk

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/batch"
)

// job is one record on its way. It is the idem.Handler and idem.DeadLetterer of its task, and what takes the task's place if its
// key can't be used.
type job struct {
	batch.Item
	consumer *Consumer
	record   *Record
	cluster  string // that the record is of
	rejected error  // why it can never succeed, if that is known without calling the handler
	reported bool   // to be delivered again
}

// prepare finds the record's redrive version, key and fingerprint.
func (j *job) prepare(c *Consumer, r *Record, cluster string) {
	j.consumer, j.record, j.cluster, j.Substitute = c, r, cluster, j
	j.Unprotected = c.cfg.Unprotected
	j.Task = idem.Task{Source: r.Source(), Handler: j}
	if c.cfg.DeadLetters != nil {
		j.Task.DeadLetters = j
	}
	var badHeader error
	j.Task.Redrive, badHeader = redriveVersion(r)
	switch err := r.Err(); {
	case err != nil:
		j.Task = j.reject(err)
	case j.Unprotected:
	case badHeader != nil:
		j.Task = j.reject(badHeader)
	default:
		if err := j.identify(); err != nil {
			j.Task = j.reject(err)
		}
	}
}

// identify fills in the task. A panic of one of the functions that the user brings is an error of the record.
func (j *job) identify() (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("finding the idempotency key or the fingerprint: %w", &idem.PanicError{Value: v, Stack: debug.Stack()})
		}
	}()
	cfg := &j.consumer.cfg
	key, err := cfg.Key(j.record)
	if err == nil && key == "" {
		err = ErrNoKey
	}
	if errors.Is(err, ErrNoKey) && cfg.MissingKey == Process {
		j.Task.Key = j.consumer.storedPlace(j.record)
		return nil
	}
	if err != nil {
		return err
	}
	j.Task.Key = j.consumer.storedKey(j.record, key)
	if j.Task.Fingerprint, err = cfg.Fingerprint(j.record); err != nil {
		return fmt.Errorf("the fingerprint can't be taken: %w", err)
	}
	return nil
}

// SubstituteFor implements batch.Substitute.
func (j *job) SubstituteFor(out *idem.Outcome) (idem.Task, bool) {
	err := unfit(out, j.Task.Redrive)
	if err == nil || j.rejected != nil {
		return idem.Task{}, false
	}
	return j.reject(err), true
}

// reject turns the job into one that ends in the dead letters. Its task is remembered under the record's place; the key that it
// may have had is left alone.
func (j *job) reject(err error) idem.Task {
	j.rejected = err
	task := j.Task
	task.Key, task.Fingerprint = j.consumer.storedPlace(j.record), idem.Fingerprint{}
	return task
}

// Handle implements idem.Handler.
func (j *job) Handle(ctx context.Context) ([]byte, error) {
	if j.rejected != nil {
		return nil, idem.Permanent(j.rejected)
	}
	return j.consumer.handler(ctx, *j.record)
}

// DeadLetter implements idem.DeadLetterer.
func (j *job) DeadLetter(ctx context.Context, b idem.Burial) error {
	return j.consumer.cfg.DeadLetters.Send(ctx, newDeadLetter(j.record, b, j.consumer.cfg.Function, j.cluster))
}

// explain adds to an outcome what the reader of the log must know: that a record which would have been given up by now is
// not, and that the result of a completed one is not kept.
func (j *job) explain() {
	out, cfg := &j.Outcome, j.consumer.engine.Config()
	if out.Kind == idem.Executed && cfg.MaxResult >= 0 && len(out.Result) > cfg.MaxResult {
		out.Err = fmt.Errorf("%w: it has %d bytes, the limit is %d; duplicates get none", idem.ErrResultNotStored, len(out.Result), cfg.MaxResult)
	}
	exhausted := out.Kind == idem.Retry && cfg.MaxAttempts > 0 && out.Attempt >= cfg.MaxAttempts
	if exhausted && j.consumer.cfg.DeadLetters == nil && !errors.Is(out.Err, idem.ErrNoDeadLetters) {
		out.Err = fmt.Errorf("%w: attempt %d, where %d would have been the last: %w", idem.ErrNoDeadLetters, out.Attempt, cfg.MaxAttempts, out.Err)
	}
}

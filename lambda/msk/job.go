package msk

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/idemsk/idemsk/idem"
)

// job is one record on its way. It is the idem.Handler and idem.DeadLetterer of its task.
type job struct {
	consumer    *Consumer
	record      *Record
	source      string
	cluster     string // that the record is of
	ticket      idem.Ticket
	group       *group // nil if no other record of the batch has its key
	rejected    error  // why it can never succeed, if that is known without calling the handler
	unprotected bool
	unfit       error // why it can't be handled under its key, as its claim or its completion found out

	begun   bool // its claim is the unit's own affair from now on; guarded by unit.mu
	claimed bool // the ticket's claim has been made, and not given back; guarded by unit.mu until the job is begun

	outcome   idem.Outcome
	ended     atomic.Bool // the outcome is known, and may be read by others
	coalesced bool        // the outcome is that of another record of the batch

	// What the batch makes of it in the end.
	fate     fate
	reported bool // to be delivered again
}

// fate says how the batch left a job. Of one that it gave up, which still runs, nothing may be read but source and record.
type fate uint8

const (
	known       fate = iota // it has ended, or was not begun: see its outcome
	strayed                 // its handler has not returned
	behindStray             // the one before it in its unit has not
)

// prepare finds the record's redrive version, key and fingerprint.
func (j *job) prepare() {
	j.ticket.Task = idem.Task{Source: j.source, Handler: j}
	if j.consumer.cfg.DeadLetters != nil {
		j.ticket.Task.DeadLetters = j
	}
	var badHeader error
	j.ticket.Task.Redrive, badHeader = redriveVersion(j.record)
	if err := j.record.Err(); err != nil {
		j.reject(err)
		return
	}
	if j.unprotected = j.consumer.cfg.Unprotected; j.unprotected {
		return
	}
	if badHeader != nil {
		j.reject(badHeader)
		return
	}
	if err := j.identify(); err != nil {
		j.reject(err)
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
		j.ticket.Task.Key = j.consumer.storedPlace(j.record)
		return nil
	}
	if err != nil {
		return err
	}
	j.ticket.Task.Key = j.consumer.storedKey(j.record, key)
	if j.ticket.Task.Fingerprint, err = cfg.Fingerprint(j.record); err != nil {
		return fmt.Errorf("the fingerprint can't be taken: %w", err)
	}
	return nil
}

// reject turns the job into one that ends in the dead letters, and is remembered under the record's place; the key that it
// may have had is left alone.
func (j *job) reject(err error) {
	j.rejected = err
	task := &j.ticket.Task
	j.ticket = idem.Ticket{Task: idem.Task{
		Key: j.consumer.storedPlace(j.record), Source: j.source, Redrive: task.Redrive, Handler: j, DeadLetters: task.DeadLetters,
	}}
	j.unprotected = j.consumer.cfg.Unprotected
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

func (j *job) settled() bool { return j.fate == known && j.outcome.Kind.Settled() }

// why says why the job is not settled.
func (j *job) why() error {
	switch {
	case j.fate == strayed:
		return ErrStray
	case j.fate == known && j.outcome.Err != nil:
		return j.outcome.Err
	}
	return errBehind
}

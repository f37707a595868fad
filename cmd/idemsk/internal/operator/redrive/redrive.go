// Package redrive brings dead letters back: to the topic that they came from, or straight to the function. It
// is also the verb that does so.
package redrive

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/redrive/foreign"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/deadletter/s3"
)

// Source is where letters are.
type Source interface {
	// Next returns the next message, or io.EOF when there are no more.
	Next(ctx context.Context) (*Message, error)
	// Begin makes sure that a message stays with the caller for a while, and returns until when.
	Begin(ctx context.Context, m *Message) (until time.Time, err error)
	// Done removes a message from the source.
	Done(ctx context.Context, m *Message) error
	// Close gives back the messages that were not taken out.
	Close(ctx context.Context) error
}

// Message is what a source holds. A source keeps no letter that it has returned.
type Message struct {
	Name   string // a message's ID, a line of a file, or a record's place
	Letter kafka.DeadLetter
	Err    error // why the message is not a dead letter
	Lost   error // why the letter's record can't be redriven

	// Batch is an on-failure record of AWS for several records; there is no Letter then. Run takes it apart.
	Batch *foreign.OnFailure

	at   position // of a record in a topic of dead letters
	part *batch   // that the letter is a part of, or nil
}

// NewMessage returns the message of a letter, or of an on-failure record of AWS, in JSON.
func NewMessage(name string, body []byte) *Message {
	if f, ok, err := foreign.ParseOnFailure(body); ok {
		m := &Message{Name: name}
		m.setOnFailure(f, err)
		return m
	}
	l, err := kafka.ParseDeadLetter(body)
	if what := foreign.Explain(body); err != nil && what != "" {
		err = fmt.Errorf("%s (%w)", what, err)
	}
	return &Message{Name: name, Letter: l, Err: err}
}

// Destination is where letters go.
type Destination interface {
	// Send redrives a letter, and says in a few words where it is now. An error means that it may not have
	// arrived.
	Send(ctx context.Context, l *kafka.DeadLetter) (where string, err error)
	// String names the destination.
	String() string
}

// Reader finds records in Kafka.
type Reader interface {
	// Fill puts into a letter what was left out of it for its size. It returns an error if the record is not
	// there any more.
	Fill(ctx context.Context, l *kafka.DeadLetter) error
}

// Options say what to redrive.
type Options struct {
	Source      Source
	Destination Destination
	Reader      Reader // nil: letters that are not whole, and not in S3, can't be redriven
	Ranges      Ranges // nil: on-failure records of AWS that have only places can't be redriven
	// Values returns a client of S3. It is called for a letter that is there.
	Values func(ctx context.Context) (s3.Getter, error)
	// Key chooses, if it is not empty, the letters with this idempotency key, as stored or as the record has
	// it. A letter of another program is chosen by its Kafka key.
	Key string
	// Function and Cluster are those whose letters are redriven, as the letters name them. A letter of
	// another function, or of another cluster, is passed over: it is of another record, though its place may
	// be the same. A letter that names none, as earlier versions made them, counts as theirs. An empty
	// Function is all of them; an empty Cluster is that of the first letter.
	Function, Cluster string
	Limit             int // at most so many letters; 0 is no limit
	Rate              int // at most so many letters a second; 0 is no limit
	DryRun            bool
	Discard           bool // letters leave the source, and are not sent
	Show              bool // results have their letters
}

// Passed counts the letters that were looked at and left in the source, by what Options has otherwise.
type Passed struct{ Key, Function, Cluster int }

// Outcome is what became of a message.
type Outcome string

// The outcomes. A message that is Redriven, Discarded or a Duplicate has left the source; any other has not. One
// with several records leaves it with the last of them.
const (
	Redriven      Outcome = "redriven"
	Discarded     Outcome = "discarded"
	WouldRedrive  Outcome = "would redrive"
	Duplicate     Outcome = "duplicate" // of a letter that was redriven in this run
	NotRedriven   Outcome = "not redriven"
	NotDeadLetter Outcome = "not a dead letter"
)

// Failed reports whether the letter still needs an operator.
func (o Outcome) Failed() bool { return o == NotRedriven || o == NotDeadLetter }

// Result is what became of a message.
type Result struct {
	Message  string  `json:"message"` // its name
	Outcome  Outcome `json:"outcome"`
	Source   string  `json:"source,omitempty"` // topic-partition@offset
	Key      string  `json:"idempotencyKey,omitempty"`
	Token    int64   `json:"token,omitempty"`
	Function string  `json:"function,omitempty"`
	Cluster  string  `json:"cluster,omitempty"`
	Cause    string  `json:"cause,omitempty"` // why it became a dead letter
	Where    string  `json:"where,omitempty"` // where it is now
	Error    string  `json:"error,omitempty"` // why it was not redriven, or not taken out of the source
	// Letter is the dead letter, with Options.Show.
	Letter *kafka.DeadLetter `json:"letter,omitempty"`
}

// Run redrives what it finds, and hands each result to report as soon as it is known. It returns how many
// letters it passed over.
func Run(ctx context.Context, o Options, report func(Result)) (passed Passed, err error) {
	o.Source = &expanded{Source: o.Source, ranges: o.Ranges}
	defer func() { err = errors.Join(err, o.Source.Close(context.WithoutCancel(ctx))) }()
	r := runner{Options: o, begun: time.Now(), redriven: make(map[letterID]bool), pace: newPace(o.Rate)}
	for n := 0; o.Limit == 0 || n < o.Limit; {
		m, err := o.Source.Next(ctx)
		if errors.Is(err, io.EOF) {
			return r.passed, nil
		}
		if err != nil {
			return r.passed, err
		}
		switch {
		case m.Err != nil:
			report(Result{Message: m.Name, Outcome: NotDeadLetter, Error: m.Err.Error()})
			continue
		case r.passesOver(&m.Letter):
			continue
		}
		if err := r.pace.wait(ctx); err != nil {
			return r.passed, err
		}
		res := r.redrive(ctx, m, &m.Letter)
		if res.Outcome != Duplicate {
			n++
		}
		report(res)
		if ctx.Err() != nil {
			return r.passed, context.Cause(ctx)
		}
	}
	return r.passed, nil
}

// passesOver reports, and counts, whether a letter is not one of those that were asked for.
func (r *runner) passesOver(l *kafka.DeadLetter) bool {
	switch {
	case !r.hasKey(l):
		r.passed.Key++
	case r.Function != "" && l.Function != "" && l.Function != r.Function:
		r.passed.Function++
	case r.Cluster != "" && l.Cluster != "" && l.Cluster != r.Cluster:
		r.passed.Cluster++
	default:
		r.Cluster = cmp.Or(r.Cluster, l.Cluster)
		return false
	}
	return true
}

// hasKey reports whether a letter has the key that was asked for, if any was.
func (r *runner) hasKey(l *kafka.DeadLetter) bool {
	return r.Key == "" || cmp.Or(l.IdempotencyKey, string(l.Key)) == r.Key || kafka.IsStoredKey(l.IdempotencyKey, r.Key)
}

// letterID is the same for two letters of one failure and, where these have no token, of one record: to
// deliver that once is what they are for. The place alone does not tell: a topic that was created again has
// other records at the same places.
type letterID [sha256.Size]byte

// idOf returns the digest of all that a letter has, except what may differ between failures of one record.
func idOf(l *kafka.DeadLetter) letterID {
	of := *l
	of.IdempotencyKey, of.Attempts, of.Error = "", 0, store.Failure{}
	text, _ := json.Marshal(&of) // has no value that can't be encoded, and tells null from empty
	return sha256.Sum256(text)
}

type runner struct {
	Options
	begun    time.Time
	redriven map[letterID]bool
	passed   Passed
	pace     *pace
}

func (r *runner) redrive(ctx context.Context, m *Message, l *kafka.DeadLetter) Result {
	res := Result{
		Message: m.Name, Outcome: NotRedriven, Source: l.Source(), Key: l.IdempotencyKey, Token: l.Token,
		Function: l.Function, Cluster: l.Cluster,
		Cause: l.Error.Code + ": " + l.Error.Message,
	}
	if r.Show {
		res.Letter = l
	}
	id := idOf(l)
	err := r.send(ctx, m, l, id, &res)
	if err != nil {
		res.Error = err.Error()
		return res
	}
	r.redriven[id] = true
	return res
}

func (r *runner) send(ctx context.Context, m *Message, l *kafka.DeadLetter, id letterID, res *Result) error {
	outcome := Redriven
	if r.redriven[id] {
		outcome = Duplicate
	}
	if r.Discard && !r.DryRun {
		return r.discard(ctx, m, res)
	}
	if m.Lost != nil {
		return m.Lost
	}
	if err := check(l, r.Reader); err != nil {
		return err
	}
	if l.Error.At.After(r.begun) { // to redrive it too would go round and round
		return errors.New("it became a dead letter again during this run: the cause of its failure is not fixed")
	}
	if r.DryRun {
		if res.Outcome = outcome; outcome == Redriven {
			res.Outcome = WouldRedrive
		}
		return nil
	}
	until, err := r.Source.Begin(ctx, m)
	if err != nil {
		return err
	}
	if outcome == Redriven {
		if err := r.deliver(ctx, until, l, res); err != nil {
			return err
		}
	}
	res.Outcome = outcome
	// The record is delivered: the rest is done even if the context is canceled.
	if err := r.Source.Done(context.WithoutCancel(ctx), m); err != nil {
		res.Error = fmt.Sprintf("it was redriven, but could not be removed from the source; redriving it again is safe: %v", err)
	}
	return nil
}

func (r *runner) discard(ctx context.Context, m *Message, res *Result) error {
	if m.part != nil && (!m.part.hasOnly(r.hasKey) || r.Limit > 0 && m.part.whole.Batch.Size > 1) {
		return fmt.Errorf("it is in %s, the message %s, which leaves its source as a whole, and has other records, or may with --limit: "+
			"redrive or delete it as a whole", m.part.whole.Batch, m.part.whole.Name)
	}
	if _, err := r.Source.Begin(ctx, m); err != nil {
		return err
	}
	if err := r.Source.Done(context.WithoutCancel(ctx), m); err != nil {
		return fmt.Errorf("it could not be removed from the source: %w", err)
	}
	res.Outcome = Discarded
	return nil
}

func (r *runner) deliver(ctx context.Context, until time.Time, l *kafka.DeadLetter, res *Result) error {
	if !until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, until)
		defer cancel()
	}
	if err := r.fill(ctx, l); err != nil {
		return err
	}
	r.pace.sent()
	where, err := r.Destination.Send(ctx, l)
	res.Where = where
	return err
}

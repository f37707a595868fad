package redrive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/redrive/foreign"
	"github.com/idemsk/idemsk/kafka"
)

// Ranges reads records from Kafka.
type Ranges interface {
	// Range begins to read a range. It returns an error if the range is not there any more.
	Range(ctx context.Context, r foreign.Range) (Letters, error)
}

// Letters are the records of a range.
type Letters interface {
	// Next returns the letter of the next record, whose other fields are those of about, or io.EOF.
	Next(ctx context.Context, about kafka.DeadLetter) (kafka.DeadLetter, error)
	Close()
}

// setOnFailure makes the message that of an on-failure record, or of the letter if it has only one.
func (m *Message) setOnFailure(f *foreign.OnFailure, err error) {
	if err != nil {
		m.Err = err
		return
	}
	f.About.Function = functionName(f.About.Function)
	for i := range f.Letters {
		f.Letters[i].Function = f.About.Function
	}
	if len(f.Letters) == 1 {
		m.Letter = f.Letters[0]
		return
	}
	m.Batch = f
}

// expanded is a source whose messages have one letter each: it takes the on-failure records of AWS apart.
// Such a message leaves its source when all of its letters are done. If some are not, all are redriven again.
type expanded struct {
	Source

	ranges Ranges
	batch  *batch // that is being taken apart, or nil
}

// batch is a message that is being taken apart.
type batch struct {
	whole   *Message
	ranges  Ranges
	letters []kafka.DeadLetter // that are not handed out
	rest    []foreign.Range    // that are not read
	reading Letters            // the records of the range before, or nil
	found   int                // records that were read
	ahead   *Message           // the next part, nil if there is none
	parts   int                // that were made
	open    int                // that were handed out and are not done
	lost    bool               // parts can't be redriven
}

// Next implements Source.
func (e *expanded) Next(ctx context.Context) (*Message, error) {
	for {
		if b := e.batch; b != nil && b.ahead != nil {
			m := b.ahead
			b.open++
			b.ahead = b.next(ctx) // now, so that Done knows the last part
			return m, nil
		}
		m, err := e.Source.Next(ctx)
		if err != nil || m.Batch == nil {
			return m, err
		}
		e.batch = &batch{whole: m, ranges: e.ranges, letters: m.Batch.Letters, rest: m.Batch.Ranges}
		e.batch.ahead = e.batch.next(ctx)
	}
}

var errOnlyPlaces = errors.New("the on-failure record has only the places of its records: give --brokers to read them from Kafka")

// next makes the next part, nil if there is none.
func (b *batch) next(ctx context.Context) *Message {
	for {
		switch {
		case len(b.letters) > 0:
			l := b.letters[0]
			b.letters = b.letters[1:]
			return b.part(l, nil)
		case b.reading != nil:
			l, err := b.reading.Next(ctx, b.whole.Batch.About)
			if err == nil {
				b.found++
				return b.part(l, nil)
			}
			b.close()
			if !errors.Is(err, io.EOF) {
				return b.lose(b.rest[0], err)
			}
			b.rest = b.rest[1:]
		case len(b.rest) == 0:
			return b.missing()
		case b.ranges == nil:
			return b.lose(b.rest[0], errOnlyPlaces)
		default:
			var err error
			if b.reading, err = b.ranges.Range(ctx, b.rest[0]); err != nil {
				return b.lose(b.rest[0], err)
			}
		}
	}
}

func (b *batch) part(l kafka.DeadLetter, lost error) *Message {
	b.parts++
	b.lost = b.lost || lost != nil
	return &Message{Name: fmt.Sprintf("%s#%d", b.whole.Name, b.parts), Letter: l, Lost: lost, part: b}
}

// lose gives up a range and makes a part that says why.
func (b *batch) lose(r foreign.Range, err error) *Message {
	if len(b.rest) > 0 {
		b.rest = b.rest[1:]
	}
	l := b.whole.Batch.About
	l.Topic, l.Partition, l.Offset = r.Topic, r.Partition, r.First
	return b.part(l, fmt.Errorf("the records %s to @%d: %w", l.Source(), r.Last, err))
}

// missing makes a part if fewer records are in Kafka than were given up. A range has offsets without a record
// also by itself: those of transactions' markers.
func (b *batch) missing() *Message {
	f := b.whole.Batch
	if b.lost || len(f.Ranges) == 0 || b.found >= f.Size {
		return nil
	}
	return b.lose(f.Ranges[0], fmt.Errorf("%d of the %d records that were given up are in Kafka: retention or compaction has removed the others",
		b.found, f.Size))
}

// hasOnly reports whether a condition holds for all records of the message, as far as is known.
func (b *batch) hasOnly(holds func(*kafka.DeadLetter) bool) bool {
	f := b.whole.Batch
	for i := range f.Letters {
		if !holds(&f.Letters[i]) {
			return false
		}
	}
	return len(f.Ranges) == 0 || len(f.Ranges) == 1 && f.Ranges[0].First == f.Ranges[0].Last
}

func (b *batch) close() {
	if b.reading != nil {
		b.reading.Close()
		b.reading = nil
	}
}

// Begin implements Source.
func (e *expanded) Begin(ctx context.Context, m *Message) (until time.Time, err error) {
	if m.part != nil {
		m = m.part.whole
	}
	return e.Source.Begin(ctx, m)
}

// Done implements Source.
func (e *expanded) Done(ctx context.Context, m *Message) error {
	if b := m.part; b != nil {
		if b.open--; b.open > 0 || b.ahead != nil { // also of a part that is lost: it is never done
			return nil
		}
		m = b.whole
	}
	return e.Source.Done(ctx, m)
}

// Close implements Source.
func (e *expanded) Close(ctx context.Context) error {
	if e.batch != nil {
		e.batch.close()
	}
	return e.Source.Close(ctx)
}

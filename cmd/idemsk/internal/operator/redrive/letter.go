package redrive

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/redrive/foreign"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/deadletter/s3"
)

// incomplete reports whether something was left out of a letter for its size.
func incomplete(l *kafka.DeadLetter) bool { return l.ValueOmitted > 0 || len(l.Omitted) > 0 }

// spilled reports whether what was left out is in S3.
func spilled(l *kafka.DeadLetter) bool { return l.ValueObject != "" }

// fill completes a letter: from S3 if it is there, or else from Kafka.
func (r *runner) fill(ctx context.Context, l *kafka.DeadLetter) (err error) {
	if !incomplete(l) {
		return nil
	}
	if spilled(l) {
		if err = r.fetchWhole(ctx, l); err == nil || r.Reader == nil || l.Queue() != "" {
			return err
		}
	}
	if kafkaErr := r.Reader.Fill(ctx, l); kafkaErr != nil {
		return errors.Join(err, fmt.Errorf(
			"the letter is not whole, and the record can't be read from Kafka: %w", kafkaErr))
	}
	return nil
}

func (r *runner) fetchWhole(ctx context.Context, l *kafka.DeadLetter) error {
	client, err := r.Values(ctx)
	if err != nil {
		return err
	}
	return s3.Fill(ctx, client, l)
}

// check says why a letter can't be redriven.
func check(l *kafka.DeadLetter, reader Reader) error {
	switch {
	case len(l.Undecoded) > 0 || slices.Contains(l.Omitted, "undecoded"):
		return errors.New(`the record can't be decoded: produce a corrected one (the original is in the dead letter)`)
	case slices.Contains(l.Omitted, foreign.Converted) && reader == nil:
		return errors.New("the event source mapping may have converted the value by its schema: give --brokers to read the record from Kafka")
	case incomplete(l) && !spilled(l) && l.Queue() != "":
		return errors.New("the letter does not have all of its message, which was deleted from its queue")
	case incomplete(l) && !spilled(l) && reader == nil:
		return fmt.Errorf("the letter does not contain its value, which was too large (%d bytes): give --brokers to read the record from Kafka", l.ValueOmitted)
	}
	return nil
}

package redrive

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/idemsk/idemsk/kafka"
)

// incomplete reports whether something was left out of a letter for its size.
func incomplete(l *kafka.DeadLetter) bool { return l.ValueOmitted > 0 || len(l.Omitted) > 0 }

// check says why a letter can't be redriven.
func check(l *kafka.DeadLetter, reader Reader) error {
	switch {
	case len(l.Undecoded) > 0 || slices.Contains(l.Omitted, "undecoded"):
		return errors.New(`the record can't be decoded: produce a corrected one (the original is in the dead letter)`)
	case incomplete(l) && reader == nil:
		return fmt.Errorf("the letter does not contain its value, which was too large (%d bytes): give --brokers to read the record from Kafka", l.ValueOmitted)
	}
	return nil
}

// header is a header of a Kafka record.
type header struct {
	Key   string
	Value []byte
}

// headers are the record's own, and the one by which a FAILED key lets the record in again. A letter of a function without
// protection has no version, and needs none.
func headers(l *kafka.DeadLetter) []header {
	all := make([]header, 0, len(l.Headers)+1)
	for _, h := range l.Headers {
		if h.Key != kafka.RedriveHeader {
			all = append(all, header(h))
		}
	}
	if l.Token > 0 {
		all = append(all, header{kafka.RedriveHeader, []byte(strconv.FormatInt(l.Token, 10))})
	}
	return all
}

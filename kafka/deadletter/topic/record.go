package topic

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/kafka"
)

// The first of idemsk's headers, and the version of the form, which is its value.
const (
	marker = "idemsk-dead-letter"
	form   = "1"
)

// undecodedHeader says that the value is the record as it arrived.
const undecodedHeader = "idemsk-undecoded"

// fact is a field of a letter as the text of a header. Without the header, or if the text is empty, the field
// has its zero value.
type fact struct {
	name  string
	text  func(l *kafka.DeadLetter) string
	parse func(l *kafka.DeadLetter, s string) error
}

// facts returns the fields in the order of their headers. Headers may be added, but none is removed or
// changed.
func facts() []fact {
	return []fact{
		text("idemsk-source-topic", func(l *kafka.DeadLetter) *string { return &l.Topic }),
		orZero(number("idemsk-source-partition", func(l *kafka.DeadLetter) *int32 { return &l.Partition })),
		orZero(number("idemsk-source-offset", func(l *kafka.DeadLetter) *int64 { return &l.Offset })),
		number("idemsk-source-timestamp", func(l *kafka.DeadLetter) *int64 { return &l.Timestamp }),
		text("idemsk-source-timestamp-type", func(l *kafka.DeadLetter) *string { return &l.TimestampType }),
		text("idemsk-cluster", func(l *kafka.DeadLetter) *string { return &l.Cluster }),
		text("idemsk-function", func(l *kafka.DeadLetter) *string { return &l.Function }),
		text("idemsk-idempotency-key", func(l *kafka.DeadLetter) *string { return &l.IdempotencyKey }),
		number("idemsk-token", func(l *kafka.DeadLetter) *int64 { return &l.Token }),
		number("idemsk-attempts", func(l *kafka.DeadLetter) *int { return &l.Attempts }),
		text("idemsk-error-code", func(l *kafka.DeadLetter) *string { return &l.Error.Code }),
		text("idemsk-error-message", func(l *kafka.DeadLetter) *string { return &l.Error.Message }),
		{name: "idemsk-error-time", text: errorTime, parse: parseErrorTime},
		{name: undecodedHeader, text: undecoded, parse: parseUndecoded},
		number("idemsk-value-omitted", func(l *kafka.DeadLetter) *int { return &l.ValueOmitted }),
		text("idemsk-value-object", func(l *kafka.DeadLetter) *string { return &l.ValueObject }),
		{name: "idemsk-omitted", text: omitted, parse: parseOmitted},
	}
}

func text(name string, at func(l *kafka.DeadLetter) *string) fact {
	return fact{
		name:  name,
		text:  func(l *kafka.DeadLetter) string { return *at(l) },
		parse: func(l *kafka.DeadLetter, s string) error { *at(l) = s; return nil },
	}
}

func number[T int | int32 | int64](name string, at func(l *kafka.DeadLetter) *T) fact {
	return fact{
		name: name,
		text: func(l *kafka.DeadLetter) string {
			if *at(l) == 0 {
				return ""
			}
			return strconv.FormatInt(int64(*at(l)), 10)
		},
		parse: func(l *kafka.DeadLetter, s string) error {
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil || int64(T(n)) != n {
				return errors.New("want a whole number")
			}
			*at(l) = T(n)
			return nil
		},
	}
}

// orZero writes a number also if it is zero.
func orZero(f fact) fact {
	text := f.text
	f.text = func(l *kafka.DeadLetter) string { return cmp.Or(text(l), "0") }
	return f
}

func errorTime(l *kafka.DeadLetter) string {
	if l.Error.At.IsZero() {
		return ""
	}
	return l.Error.At.Format(time.RFC3339Nano)
}

// maxYear is the last year of RFC 3339.
const maxYear = 9999

func parseErrorTime(l *kafka.DeadLetter, s string) error {
	at, err := time.Parse(time.RFC3339Nano, s)
	l.Error.At = at.UTC()
	if year := l.Error.At.Year(); err == nil && (year < 0 || year > maxYear) {
		return fmt.Errorf("the year in UTC is %d: want 0 to %d", year, maxYear)
	}
	return err
}

func undecoded(l *kafka.DeadLetter) string {
	if len(l.Undecoded) == 0 {
		return ""
	}
	return "true"
}

func parseUndecoded(l *kafka.DeadLetter, s string) error {
	if s != "true" || len(l.Value) == 0 {
		return errors.New(`want "true", and a value`)
	}
	l.Undecoded, l.Value = l.Value, nil
	return nil
}

func omitted(l *kafka.DeadLetter) string { return strings.Join(l.Omitted, ",") }

func parseOmitted(l *kafka.DeadLetter, s string) error {
	if s != "" {
		l.Omitted = strings.Split(s, ",")
	}
	return nil
}

// record returns the Kafka record of a letter, without its topic. An undecoded record takes the place of the
// value.
func record(l *kafka.DeadLetter) *kgo.Record {
	r := &kgo.Record{Key: l.Key, Value: l.Value}
	if len(l.Undecoded) > 0 {
		r.Value = l.Undecoded
	}
	all := facts()
	r.Headers = make([]kgo.RecordHeader, 0, len(l.Headers)+1+len(all))
	for _, h := range l.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader(h))
	}
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: marker, Value: []byte(form)})
	for _, f := range all {
		if s := f.text(l); s != "" {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: f.name, Value: []byte(s)})
		}
	}
	return r
}

// Parse reads the dead letter in a record of the topic. It returns an error if the record is not one.
func Parse(r *kgo.Record) (kafka.DeadLetter, error) {
	l, err := parse(r)
	if err != nil {
		return kafka.DeadLetter{}, fmt.Errorf("topic: this is not a dead letter of idemsk: %w", err)
	}
	return l, nil
}

func parse(r *kgo.Record) (l kafka.DeadLetter, err error) {
	end := len(r.Headers) - 1
	for end >= 0 && r.Headers[end].Key != marker {
		end--
	}
	if end < 0 {
		return l, fmt.Errorf("it has no header %s", marker)
	}
	if v := string(r.Headers[end].Value); v != form {
		return l, fmt.Errorf("the header %s is %.20q: this version reads %s only", marker, v, form)
	}
	l.Key, l.Value = r.Key, r.Value
	for _, h := range r.Headers[:end] {
		l.Headers = append(l.Headers, kafka.DeadHeader(h))
	}
	all := facts()
	seen := make([]bool, len(all))
	for _, h := range r.Headers[end+1:] {
		i := slices.IndexFunc(all, func(f fact) bool { return f.name == h.Key })
		if i < 0 {
			continue // of a later version, or added on the way
		}
		if seen[i] {
			return l, fmt.Errorf("it has the header %s twice", h.Key)
		}
		seen[i] = true
		if err := all[i].parse(&l, string(h.Value)); err != nil {
			return l, fmt.Errorf("the header %s is %.60q: %w", h.Key, h.Value, err)
		}
	}
	switch {
	case l.Topic == "" || l.Error.Code == "":
		return l, errors.New("it names no topic, or no error")
	case l.Partition < 0 || l.Offset < 0 || l.ValueOmitted < 0:
		return l, errors.New("its partition, offset or size is negative")
	}
	return l, nil
}

// Package redriven is what the record of a dead letter is when it is redriven: the headers that it has, in
// its topic and in a function's event, the event, and what the answer to the event says of it.
package redriven

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/kafka"
)

// Headers returns the record's own headers, and the one by which a FAILED key lets the record in again. A
// letter of a function without protection has no token, and needs none.
func Headers(l *kafka.DeadLetter) []kafka.Header {
	all := make([]kafka.Header, 0, len(l.Headers)+1)
	for _, h := range l.Headers {
		if h.Key != kafka.RedriveHeader {
			all = append(all, kafka.Header(h))
		}
	}
	if l.Token > 0 {
		all = append(all, kafka.Header{Key: kafka.RedriveHeader,
			Value: fmt.Appendf(nil, "%d %s", l.Token, l.Error.Code)})
	}
	return all
}

// noTimestamp is how Kafka says that a record has none.
const noTimestamp = -1

// Event returns the event of a letter's record alone, at its old place, as the event source that delivered it
// writes it: of a topic, or of a queue. It asks for the outcome.
func Event(l *kafka.DeadLetter) []byte {
	if l.Queue() != "" {
		m := MessageOf(l)
		return m.event(l.Queue())
	}
	m := mskevent.Message{
		Topic: l.Topic, Partition: l.Partition, Offset: l.Offset, Timestamp: l.Timestamp,
		TimestampType: l.TimestampType,
		Key:           l.Key, Value: l.Value,
	}
	if m.Timestamp == 0 {
		m.Timestamp = noTimestamp
	}
	for _, h := range Headers(l) {
		m.Headers = append(m.Headers, mskevent.Header(h))
	}
	return mskevent.Cluster(l.Cluster).WithOutcomes().Messages(m)
}

// Verdict says what became of a letter's record by the function's answer to its event. The letter must not go
// unless the outcome proves that the record itself was settled now or before, or has a new letter: a record
// whose key is FAILED still counts as settled for the event source, but nothing was done. Its error, which
// means that the letter stays, begins with a verb whose subject is the function.
func Verdict(l *kafka.DeadLetter, answer []byte) (what string, err error) {
	if err := settled(l, answer); err != nil {
		return "", err
	}
	switch outcome := outcomeOf(l, answer); outcome {
	case idem.Executed.String():
		return "executed", nil
	case idem.FailedOpen.String():
		return "executed, without protection", nil
	case idem.Replayed.String():
		return "had been done already", nil
	case idem.DeadLettered.String():
		return "failed again, see its new dead letter", nil
	case idem.ReplayedFailed.String():
		return "", errors.New("found the key FAILED still, and did nothing: there is a later dead letter of it to redrive, " +
			"or the record has no usable key still: then fix that, and redrive it to its topic (--brokers without --function-name)")
	default:
		return "", fmt.Errorf("reports no failure, but its answer does not name the outcome of the record (%q), so the letter stays: "+
			"does the function use this version of idemsk? If not, redrive it to its topic (--brokers without --function-name)", outcome)
	}
}

// settled returns an error unless the answer says that the record is done with.
func settled(l *kafka.DeadLetter, answer []byte) error {
	failed, listed, err := failure(l, answer)
	switch {
	case err != nil || !listed:
		return fmt.Errorf("returned a response that is not a partial batch response (does it use idemsk?): %.200s", answer)
	case failed:
		return errors.New("reported the record as not settled: it is in flight in another invocation, or it failed again and will be retried; see the function's log")
	}
	return nil
}

// failure reports whether an answer has a list of failures, and whether the letter's record is in it.
func failure(l *kafka.DeadLetter, answer []byte) (failed, listed bool, err error) {
	if l.Queue() != "" {
		id := MessageOf(l).ID
		listed, err = mskevent.ItemsBy(mskevent.MessageID, answer, func(named string) bool { return named == id },
			func(string, map[string]json.RawMessage) { failed = true })
		return failed, listed, err
	}
	places, listed, err := mskevent.Failures(answer, func(p mskevent.Place) bool { return p.String() == l.Source() })
	return len(places) > 0, listed, err
}

// outcomeOf returns the outcome of the record in the answer, "" if there is none.
func outcomeOf(l *kafka.DeadLetter, answer []byte) string {
	name := l.Source()
	if l.Queue() != "" {
		name = MessageOf(l).ID
	}
	return mskevent.Outcomes(answer)[name]
}

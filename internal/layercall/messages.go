package layercall

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/sqs"
)

// messages is the event of an SQS queue: the JSON of each message, by its ID.
type messages map[string]json.RawMessage

func readMessages(event []byte) (messages, error) {
	var of struct {
		Records []json.RawMessage `json:"Records"`
	}
	if err := json.Unmarshal(event, &of); err != nil {
		return nil, fmt.Errorf("the event is no event of a queue: %w", err)
	}
	all := make(messages, len(of.Records))
	for i, text := range of.Records {
		var m struct {
			ID string `json:"messageId"`
		}
		if err := json.Unmarshal(text, &m); err != nil {
			return nil, fmt.Errorf("the event is no event of a queue: Records[%d]: %w", i, err)
		}
		all[m.ID] = text // a standard queue may deliver a message twice
	}
	return all, nil
}

// event ignores conversions: a schema registry has the schemas of topics.
func (all messages) event(rs []kafka.RecordAttempt, _ bool) ([]byte, error) {
	out := []byte(`{"Records":[`)
	for i := range rs {
		if i > 0 {
			out = append(out, ',')
		}
		id := sqs.MessageID(rs[i].Record)
		text, err := withAttempt(all[id], &rs[i])
		if err != nil {
			return nil, fmt.Errorf("adding attributes to the message %s: %w", id, err)
		}
		out = append(out, text...)
	}
	return append(out, "]}"...), nil
}

// withAttempt returns the JSON of a message with the headers of its attempt as message attributes. They take
// the place of those of the same names.
func withAttempt(message json.RawMessage, a *kafka.RecordAttempt) (json.RawMessage, error) {
	const field = "messageAttributes"
	var fields, attributes map[string]json.RawMessage
	if err := json.Unmarshal(message, &fields); err != nil {
		return nil, err
	}
	if of := fields[field]; of != nil {
		if err := json.Unmarshal(of, &attributes); err != nil {
			return nil, err
		}
	}
	before := len(attributes)
	maps.DeleteFunc(attributes, func(name string, _ json.RawMessage) bool { return isOurs(name) })
	headers := headersOf(a.Attempt)
	if len(headers) == 0 && len(attributes) == before {
		return message, nil
	}
	if attributes == nil {
		attributes = make(map[string]json.RawMessage)
	}
	for _, h := range headers {
		attributes[h.Key] = fmt.Appendf(nil,
			`{"stringValue":"%s","stringListValues":[],"binaryListValues":[],"dataType":"Number"}`, h.Value)
	}
	var err error
	if fields[field], err = json.Marshal(attributes); err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}

func (messages) results(rs []kafka.RecordAttempt, answer []byte) ([]idem.BulkResult, error) {
	return resultsBy(identifiers[string]{of: sqs.MessageID, read: mskevent.MessageID}, rs, answer)
}

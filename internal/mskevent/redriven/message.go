package redriven

import (
	"encoding/json"
	"strings"

	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/sqs"
)

// Message is the message of a queue in a letter.
type Message struct {
	ID, Body, Group string
	Attributes      []Attribute       // of the producer, and the redrive header
	System          map[string]string // that SQS set, without their prefix
}

// Attribute is an attribute of a message.
type Attribute struct {
	Name, DataType string
	Value          []byte
}

// Binary reports whether the attribute's value is no text.
func (a *Attribute) Binary() bool { return strings.HasPrefix(a.DataType, "Binary") }

// MessageOf returns the message of a letter whose Queue is not "".
func MessageOf(l *kafka.DeadLetter) Message {
	m := Message{Body: string(l.Value), Group: string(l.Key), System: make(map[string]string)}
	types := make(map[string]string)
	for _, h := range l.Headers {
		if name, ok := strings.CutPrefix(h.Key, sqs.DataTypePrefix); ok {
			types[name] = string(h.Value)
		}
	}
	for _, h := range Headers(l) {
		name, system := strings.CutPrefix(h.Key, sqs.SystemPrefix)
		switch {
		case h.Key == sqs.MessageIDHeader:
			m.ID = string(h.Value)
		case strings.HasPrefix(h.Key, sqs.DataTypePrefix):
		case system:
			m.System[name] = string(h.Value)
		case h.Key == kafka.RedriveHeader: // the producer's of this name was no String, perhaps
			m.Attributes = append(m.Attributes, Attribute{h.Key, sqs.StringType, h.Value})
		default:
			kind := types[name]
			if kind == "" {
				kind = sqs.StringType
			}
			m.Attributes = append(m.Attributes, Attribute{name, kind, h.Value})
		}
	}
	return m
}

// event returns the event of a message alone, as Lambda writes it. Records is its first field, by which
// sqs.IsEvent recognises it.
func (m *Message) event(queue string) []byte {
	own := make(map[string]any, len(m.Attributes))
	for i := range m.Attributes {
		a := &m.Attributes[i]
		one := map[string]any{"dataType": a.DataType, "stringListValues": []string{}, "binaryListValues": []string{}}
		if a.Binary() {
			one["binaryValue"] = a.Value
		} else {
			one["stringValue"] = string(a.Value)
		}
		own[a.Name] = one
	}
	record := map[string]any{
		"messageId": m.ID, "receiptHandle": "idemsk-redrive", "body": m.Body, "attributes": m.System,
		"messageAttributes": own, "eventSource": "aws:sqs", "eventSourceARN": queue, "awsRegion": regionOf(queue),
	}
	out, _ := json.Marshal(struct { // strings and bytes encode
		Records  []any
		Outcomes string `json:"idemskOutcomes"`
	}{[]any{record}, "all"})
	return out
}

// regionOf returns the region of an ARN.
func regionOf(arn string) string {
	const region = 3
	return strings.Split(arn, ":")[region]
}

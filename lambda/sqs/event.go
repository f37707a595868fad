package sqs

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/idemsk/idemsk/kafka"
)

// ErrNotSQS means that the payload is not an SQS event. Every error of [Decode] wraps it.
var ErrNotSQS = errors.New("not an SQS event as Lambda's event source mapping delivers it")

// The names of headers with attributes that SQS sets. Producers can't write them.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-metadata.html
const (
	SystemPrefix    = "AWS."
	MessageIDHeader = SystemPrefix + "MessageId"
	// DataTypePrefix is the beginning of the names of the headers with the data types of attributes of the
	// producer, such as Number. A String has no such header.
	DataTypePrefix = SystemPrefix + "DataType."
	// StringType is the data type of an attribute without such a header.
	StringType = "String"

	groupAttribute = "MessageGroupId"
	sentAttribute  = "SentTimestamp"
)

// MessageID returns the ID of a message, which is in its MessageIDHeader, and "" for a record of Kafka.
func MessageID(r *kafka.Record) string {
	for id := range r.Header(MessageIDHeader) {
		return string(id)
	}
	return ""
}

// Event is one payload of an event source mapping for a queue.
// https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html shows the JSON.
type Event struct {
	ARN     string // of the queue
	Records []kafka.Record
	// Outcomes reports that the response is to have the outcome of each message (Response.Outcomes), as in
	// package lambda/msk. The event source never sets the field "idemskOutcomes"; idemsk redrive does.
	Outcomes bool
}

// source is the eventSource of a message.
const source = "aws:sqs"

// IsEvent reports whether a payload is the event of a queue. It reads the payload no further than its first
// message.
func IsEvent(payload []byte) bool {
	d := json.NewDecoder(bytes.NewReader(payload))
	for _, want := range []json.Token{json.Delim('{'), "Records", json.Delim('[')} {
		if got, err := d.Token(); err != nil || got != want {
			return false
		}
	}
	var first struct {
		EventSource string `json:"eventSource"`
	}
	return d.Decode(&first) == nil && first.EventSource == source
}

// Decode parses the event of a queue.
//
// An error concerns the whole event: the payload is not JSON, has a message of another service or without an
// ID, or messages of several queues. Any other defect of a message is its [kafka.Record.Undecodable], and
// does not affect other messages.
func Decode(payload []byte) (*Event, error) {
	var raw struct {
		Records  []json.RawMessage `json:"Records"`
		Outcomes any               `json:"idemskOutcomes"`
	}
	if err := json.Unmarshal(payload, &raw); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotSQS, err)
	}
	if len(raw.Records) == 0 {
		return nil, fmt.Errorf(`%w: it has no "Records": check which trigger invokes this function`, ErrNotSQS)
	}
	e := &Event{Records: make([]kafka.Record, len(raw.Records)), Outcomes: raw.Outcomes != nil}
	for i, text := range raw.Records {
		if err := e.add(&e.Records[i], text); err != nil {
			return nil, fmt.Errorf("%w: Records[%d]: %w", ErrNotSQS, i, err)
		}
	}
	return e, nil
}

// identity has the fields without which a message could not be reported.
type identity struct {
	MessageID string `json:"messageId"`
	Source    string `json:"eventSource"`
	ARN       string `json:"eventSourceARN"`
}

func (e *Event) add(r *kafka.Record, text json.RawMessage) error {
	var id identity
	if err := json.Unmarshal(text, &id); err != nil {
		return err
	}
	e.ARN = cmp.Or(e.ARN, id.ARN)
	queue := id.ARN[strings.LastIndexByte(id.ARN, ':')+1:]
	switch {
	case id.Source != source:
		return fmt.Errorf("its eventSource is %q: check which trigger invokes this function", id.Source)
	case id.MessageID == "":
		return errors.New("it has no messageId, without which it can't be reported")
	case id.ARN != e.ARN:
		return fmt.Errorf("it is of the queue %s, and those before of %s", id.ARN, e.ARN)
	case !kafka.IsQueue(id.ARN) || !kafka.ValidTopic(queue):
		return fmt.Errorf("its eventSourceARN is %q, not that of a queue", id.ARN)
	}
	r.Topic, r.Offset = queue, offsetOf(id.MessageID)
	var content content
	field, err := content.decode(text)
	if group, ok := content.Attributes[groupAttribute]; ok {
		r.Key = []byte(group)
	}
	if err == nil {
		field, err = content.fill(r)
	}
	r.Headers = append(r.Headers, kafka.Header{Key: MessageIDHeader, Value: []byte(id.MessageID)})
	for _, name := range slices.Sorted(maps.Keys(content.Attributes)) {
		value := []byte(content.Attributes[name])
		r.Headers = append(r.Headers, kafka.Header{Key: SystemPrefix + name, Value: value})
	}
	if err != nil {
		r.Undecodable = &kafka.DecodeError{Source: r.Source(), Field: field, Err: err,
			Raw: bytes.Clone(text)}
	}
	return nil
}

// offsetOf returns the number of a message, by which a record's place is unique.
func offsetOf(messageID string) int64 {
	sum := sha256.Sum256([]byte(messageID))
	return int64(binary.BigEndian.Uint64(sum[:]) & math.MaxInt64)
}

// content has the fields that concern this message only.
type content struct {
	Body              *string              `json:"body"`
	Attributes        map[string]string    `json:"attributes"`
	MessageAttributes map[string]attribute `json:"messageAttributes"`
}

type attribute struct {
	StringValue *string `json:"stringValue"`
	BinaryValue []byte  `json:"binaryValue"` // base64
	DataType    string  `json:"dataType"`
}

// decode decodes the fields that are valid, and returns the name of the first that is not.
func (c *content) decode(text json.RawMessage) (field string, err error) {
	err = json.Unmarshal(text, c)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return wrong.Field, fmt.Errorf("it is of the type %s", wrong.Value)
	}
	return "messageAttributes", err // base64 is only there
}

// fill sets the fields of a record, and returns the name of the first that is invalid.
func (c *content) fill(r *kafka.Record) (field string, err error) {
	if c.Body == nil {
		return "body", errors.New("it is missing")
	}
	r.Value = []byte(*c.Body)
	if sent, ok := c.Attributes[sentAttribute]; ok {
		ms, err := strconv.ParseInt(sent, 10, 64)
		if err != nil {
			return "attributes." + sentAttribute, errors.New("it is no whole number of milliseconds")
		}
		r.Timestamp = time.UnixMilli(ms).UTC()
	}
	names := slices.Sorted(maps.Keys(c.MessageAttributes))
	for _, name := range names {
		value := c.MessageAttributes[name].BinaryValue
		if text := c.MessageAttributes[name].StringValue; text != nil {
			value = []byte(*text)
		}
		r.Headers = append(r.Headers, kafka.Header{Key: name, Value: value})
	}
	for _, name := range names {
		if kind := c.MessageAttributes[name].DataType; kind != "" && kind != StringType {
			r.Headers = append(r.Headers, kafka.Header{Key: DataTypePrefix + name, Value: []byte(kind)})
		}
	}
	return "", nil
}

// lanes returns the records that are handled one after another: each group of a FIFO queue, in the order of
// the event, and each other message alone.
func (e *Event) lanes(order kafka.Order) (lanes [][]kafka.Record) {
	grouped := strings.HasSuffix(e.ARN, ".fifo") && order != kafka.Unordered
	of := make(map[string]int)
	for i := range e.Records {
		r := &e.Records[i]
		if lane, ok := of[string(r.Key)]; ok && grouped {
			lanes[lane] = append(lanes[lane], *r)
			continue
		}
		of[string(r.Key)] = len(lanes)
		lanes = append(lanes, []kafka.Record{*r})
	}
	return lanes
}

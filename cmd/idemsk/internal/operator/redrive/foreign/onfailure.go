// Package foreign reads the dead letters of other programs: the on-failure records of an event source mapping
// of AWS Lambda, and the records that Spring for Apache Kafka publishes to a dead-letter topic.
package foreign

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
)

// OnFailure is the on-failure record of an event source mapping for Kafka. It describes records that the
// mapping gave up. A queue and an SNS topic get only their places; a bucket and a Kafka topic get the
// records.
// https://docs.aws.amazon.com/lambda/latest/dg/kafka-on-failure.html
// https://docs.aws.amazon.com/lambda/latest/dg/kafka-on-failure-destination.html
type OnFailure struct {
	// About is the letter of each record without the record. Its Function is the function's ARN.
	About   kafka.DeadLetter
	Size    int                // the number of records that were given up; 0 if unknown
	Ranges  []Range            // where these records are, if Letters is empty
	Letters []kafka.DeadLetter // one for each record
}

// String returns what the record is about.
func (f *OnFailure) String() string {
	return fmt.Sprintf("AWS's on-failure record of %d records (%s)", max(f.Size, len(f.Letters)),
		f.About.Error.Code)
}

// Range is the part of a partition from one offset to another, inclusive. Records in between may have been
// handled: the mapping names the first and the last one that it gave up.
type Range struct {
	Topic       string
	Partition   int32
	First, Last int64
	Time        int64 // of the first record, in epoch ms; 0 if unknown
}

// document is the JSON form.
type document struct {
	Request struct {
		FunctionARN string `json:"functionArn"`
		Condition   string `json:"condition"`
		Invocations int    `json:"approximateInvokeCount"`
	} `json:"requestContext"`
	Response *struct {
		FunctionError string `json:"functionError"`
	} `json:"responseContext"` // null if the function was not invoked
	Timestamp string `json:"timestamp"`
	Batch     struct {
		Size           int                  `json:"batchSize"`
		EventSourceARN string               `json:"eventSourceArn"`
		Servers        string               `json:"bootstrapServers"`
		Partitions     map[string]partition `json:"recordsInfo"`
	} `json:"KafkaBatchInfo"`
	Payload json.RawMessage `json:"payload"`
}

type partition struct {
	First     offset `json:"firstRecordOffset"`
	Last      offset `json:"lastRecordOffset"`
	FirstTime string `json:"firstRecordTimestamp"`
}

// offset is a number that the mapping writes as a string.
type offset int64

// UnmarshalJSON implements json.Unmarshaler.
func (o *offset) UnmarshalJSON(text []byte) error {
	n, err := strconv.ParseInt(strings.Trim(string(text), `"`), 10, 64)
	*o = offset(n)
	return err
}

// ParseOnFailure reads the JSON form of an on-failure record, also inside a notification of SNS. ok reports
// whether the body is one.
func ParseOnFailure(body []byte) (f *OnFailure, ok bool, err error) {
	var kind struct {
		Type, Message string          // of a notification
		Batch         json.RawMessage `json:"KafkaBatchInfo"`
	}
	if json.Unmarshal(body, &kind) != nil {
		return nil, false, nil //nolint:nilerr // it is another document
	}
	if kind.Batch == nil {
		if kind.Type != "Notification" {
			return nil, false, nil
		}
		return ParseOnFailure([]byte(kind.Message))
	}
	if f, err = parse(body); err != nil {
		return nil, true, fmt.Errorf("an on-failure record of AWS that can't be read: %w", err)
	}
	return f, true, nil
}

func parse(body []byte) (*OnFailure, error) {
	var d document
	if err := json.Unmarshal(body, &d); err != nil {
		return nil, err
	}
	f := &OnFailure{About: d.about(), Size: d.Batch.Size}
	payload, err := d.event()
	switch {
	case err != nil:
		return nil, fmt.Errorf("its payload: %w", err)
	case payload != nil:
		f.Letters, err = f.letters(payload)
	default:
		f.Ranges, err = d.ranges()
	}
	if err == nil && len(f.Letters)+len(f.Ranges) == 0 {
		err = errors.New("it names no records")
	}
	return f, err
}

func (d *document) about() kafka.DeadLetter {
	cause := "the function was not invoked"
	if d.Response != nil {
		cause = fmt.Sprintf("%s, invocations: %d", cmp.Or(d.Response.FunctionError, "reported records"),
			d.Request.Invocations)
	}
	at, _ := time.Parse(time.RFC3339, d.Timestamp) // the zero time is none
	return kafka.DeadLetter{
		Function: d.Request.FunctionARN, Cluster: cmp.Or(d.Batch.EventSourceARN, d.Batch.Servers),
		Attempts: d.Request.Invocations,
		Error:    store.Failure{Code: cmp.Or(d.Request.Condition, "given up"), Message: cause, At: at.UTC()},
	}
}

// event returns the event with the records, nil if there is none. A bucket gets it as a string, and a topic
// as an object.
func (d *document) event() ([]byte, error) {
	switch {
	case len(d.Payload) == 0 || string(d.Payload) == "null":
		return nil, nil
	case bytes.HasPrefix(d.Payload, []byte(`"`)):
		var text string
		err := json.Unmarshal(d.Payload, &text)
		return []byte(text), err
	}
	return d.Payload, nil
}

func (d *document) ranges() ([]Range, error) {
	var all []Range
	for id, p := range d.Batch.Partitions {
		dash := strings.LastIndexByte(id, '-')
		number, err := strconv.ParseInt(id[dash+1:], 10, 32)
		if err != nil || dash <= 0 || p.First < 0 || p.Last < p.First {
			return nil, fmt.Errorf("its recordsInfo %q from %d to %d: want <topic>-<partition> and ascending offsets",
				id, p.First, p.Last)
		}
		r := Range{Topic: id[:dash], Partition: int32(number), First: int64(p.First), Last: int64(p.Last)}
		if at, err := time.Parse(time.RFC3339, p.FirstTime); err == nil {
			r.Time = at.UnixMilli()
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Range) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return all, nil
}

func (f *OnFailure) letters(payload []byte) (all []kafka.DeadLetter, err error) {
	event, err := msk.Decode(payload)
	if err != nil {
		return nil, fmt.Errorf("its payload: %w", err)
	}
	for _, records := range event.Partitions {
		for i := range records {
			all = append(all, f.letter(&records[i]))
		}
	}
	return all, nil
}

func (f *OnFailure) letter(r *kafka.Record) kafka.DeadLetter {
	l := f.About
	l.Topic, l.Partition, l.Offset, l.TimestampType = r.Topic, r.Partition, r.Offset, r.TimestampType
	l.Key, l.Value = r.Key, r.Value
	if !r.Timestamp.IsZero() {
		l.Timestamp = r.Timestamp.UnixMilli()
	}
	for _, h := range r.Headers {
		l.Headers = append(l.Headers, kafka.DeadHeader(h))
	}
	if r.Undecodable != nil {
		l.Undecoded = r.Undecodable.Raw
	}
	if r.KeySchema != nil || r.ValueSchema != nil { // the event may have JSON for the producer's bytes
		l.Key, l.Value, l.Omitted = nil, nil, []string{"key", Converted}
	}
	return l
}

// Converted is in the field Omitted of a letter whose value the event source may have converted by its
// schema.
const Converted = "value"

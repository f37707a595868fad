package esm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/idemsk/idemsk/internal/mskevent"
)

// The conditions under which records are given up.
const (
	// RetryAttemptsExhausted and PayloadTooLarge are on AWS's page for Kafka. RecordAgeExceeded is on its
	// page for Kinesis only.
	RetryAttemptsExhausted = "RetryAttemptsExhausted"
	RecordAgeExceeded      = "RecordAgeExceeded"
	PayloadTooLarge        = "MaximumPayloadSizeExceeded"

	// SchemaNotFound and DeserializationError are the reasons of an event source with a schema registry.
	// https://docs.aws.amazon.com/lambda/latest/dg/services-consume-kafka-events.html#services-consume-kafka-events-how
	SchemaNotFound       = "SCHEMA_NOT_FOUND"
	DeserializationError = "DESERIALIZATION_ERROR"

	// retriesExhausted replaces RetryAttemptsExhausted in messages to a Kafka topic.
	retriesExhausted = "RetriesExhausted"
)

// Failure describes records of a batch that were given up.
type Failure struct {
	// RetryAttemptsExhausted, RecordAgeExceeded, PayloadTooLarge, SchemaNotFound or DeserializationError
	Condition   string
	Invocations int    // with these records
	Last        Answer // to the last invocation; empty if there was none
	Records     []Record
	At          time.Time

	envelope       mskevent.Envelope
	functionARN    string
	eventSourceARN string
	brokers        string
}

// The documented messages: https://docs.aws.amazon.com/lambda/latest/dg/kafka-on-failure.html and, for a
// topic, https://docs.aws.amazon.com/lambda/latest/dg/kafka-on-failure-destination.html
type (
	failureMessage struct {
		RequestContext  requestContext   `json:"requestContext"`
		ResponseContext *responseContext `json:"responseContext"` // null if the function was not invoked
		Version         string           `json:"version"`
		Timestamp       string           `json:"timestamp"`
		KafkaBatchInfo  kafkaBatchInfo   `json:"KafkaBatchInfo"`
		Payload         any              `json:"payload,omitempty"`
	}
	requestContext struct {
		RequestID              string `json:"requestId"`
		FunctionARN            string `json:"functionArn"`
		Condition              string `json:"condition"`
		ApproximateInvokeCount int    `json:"approximateInvokeCount"`
	}
	responseContext struct {
		StatusCode      int    `json:"statusCode"`
		ExecutedVersion string `json:"executedVersion"`
		FunctionError   string `json:"functionError,omitempty"`
	}
	kafkaBatchInfo struct {
		BatchSize        int                    `json:"batchSize"`
		EventSourceARN   string                 `json:"eventSourceArn"`
		BootstrapServers string                 `json:"bootstrapServers"`
		PayloadSize      int                    `json:"payloadSize"`           // bytes
		RecordsInfo      map[string]recordsInfo `json:"recordsInfo,omitempty"` // by "<topic>-<partition>"
		RecordInfo       *recordInfo            `json:"recordInfo,omitempty"`  // to a topic
	}
	recordsInfo struct {
		FirstRecordOffset    string `json:"firstRecordOffset"`
		LastRecordOffset     string `json:"lastRecordOffset"`
		FirstRecordTimestamp string `json:"firstRecordTimestamp"`
		LastRecordTimestamp  string `json:"lastRecordTimestamp"`
	}
	recordInfo struct {
		Offset    string `json:"offset"`
		Timestamp string `json:"timestamp"`
	}
)

// Metadata returns the message for SQS and SNS, without the records.
func (f *Failure) Metadata() ([]byte, error) { return f.encode(f.message(f.Records)) }

// WithPayload returns the object for S3: the metadata, with the whole event as a string.
func (f *Failure) WithPayload() ([]byte, error) {
	m := f.message(f.Records)
	m.Payload = string(payload(f.envelope, f.Records))
	return f.encode(m)
}

// TopicMessage is the message of a record for a Kafka topic.
type TopicMessage struct {
	Key   []byte // the record's key; nil means any partition
	Value []byte
}

// TopicMessages returns a message for each record, with the record.
func (f *Failure) TopicMessages() ([]TopicMessage, error) {
	var all []TopicMessage
	for i := range f.Records {
		r := &f.Records[i]
		m := f.message(f.Records[i : i+1])
		m.KafkaBatchInfo.RecordsInfo = nil
		m.KafkaBatchInfo.RecordInfo = &recordInfo{Offset: strconv.FormatInt(r.Offset, 10),
			Timestamp: millis(r.Timestamp)}
		m.RequestContext.FunctionARN += ":$LATEST"
		if f.Condition == RetryAttemptsExhausted {
			m.RequestContext.Condition = retriesExhausted
		}
		m.Payload = json.RawMessage(payload(f.envelope, f.Records[i:i+1]))
		value, err := f.encode(m)
		if err != nil {
			return nil, err
		}
		all = append(all, TopicMessage{Key: r.Key, Value: value})
	}
	return all, nil
}

func (f *Failure) encode(m *failureMessage) ([]byte, error) {
	out, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encoding the on-failure message of %s: %w", f.Records[0].Place(), err)
	}
	return out, nil
}

func (f *Failure) message(records []Record) *failureMessage {
	m := &failureMessage{
		RequestContext: requestContext{
			RequestID: f.Last.RequestID, FunctionARN: f.functionARN, Condition: f.Condition,
			ApproximateInvokeCount: f.Invocations,
		},
		Version: "1.0", Timestamp: f.At.UTC().Format(stamp),
		KafkaBatchInfo: kafkaBatchInfo{
			BatchSize: len(records), EventSourceARN: f.eventSourceARN, BootstrapServers: f.brokers,
			PayloadSize: len(payload(f.envelope, records)), RecordsInfo: infoOf(records),
		},
	}
	if f.Invocations > 0 {
		m.ResponseContext = &responseContext{StatusCode: http.StatusOK, ExecutedVersion: "$LATEST",
			FunctionError: f.Last.FunctionError}
	}
	return m
}

func infoOf(records []Record) map[string]recordsInfo {
	info := make(map[string]recordsInfo)
	for i := range records {
		r := &records[i]
		at, offset := millis(r.Timestamp), strconv.FormatInt(r.Offset, 10)
		in, known := info[r.PartitionID]
		if !known {
			in.FirstRecordOffset, in.FirstRecordTimestamp = offset, at
		}
		in.LastRecordOffset, in.LastRecordTimestamp = offset, at
		info[r.PartitionID] = in
	}
	return info
}

const stamp = "2006-01-02T15:04:05.000Z"

func millis(ms int64) string { return time.UnixMilli(ms).UTC().Format(stamp) }

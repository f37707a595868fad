package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

const (
	createTime    = "CREATE_TIME"
	logAppendTime = "LOG_APPEND_TIME"

	// keyHeader is the header that idemsk takes the idempotency key from by default.
	keyHeader = "idempotency-key"

	// firstTimestamp is 2026-01-01T00:00:00Z in epoch milliseconds; a record at offset n was sent n seconds later.
	firstTimestamp = 1_767_225_600_000
)

// event is an invocation's payload as the Kafka event source mapping sends it,
// https://docs.aws.amazon.com/lambda/latest/dg/with-msk.html. The type in aws-lambda-go can't tell null from absent and has no
// room for a broken field or a new one, and those are what most samples are about.
type event struct {
	EventSource      string     `json:"eventSource"`
	EventSourceARN   string     `json:"eventSourceArn,omitempty"`
	BootstrapServers string     `json:"bootstrapServers"`
	EventVersion     string     `json:"eventVersion,omitempty"` // not sent today
	Records          partitions `json:"records"`
}

// partition is one entry of the records map. Its key is "<topic>-<partition>".
type partition struct {
	key     string
	records []record
}

// partitions is written as a JSON object in the order given, which a Go map would lose.
type partitions []partition

// record is one Kafka record. In the raw fields nil means absent, which is not the same as null.
type record struct {
	Topic         string          `json:"topic"`
	Partition     int32           `json:"partition"`
	Offset        int64           `json:"offset"`
	Timestamp     int64           `json:"timestamp"` // epoch milliseconds
	TimestampType string          `json:"timestampType"`
	Key           json.RawMessage `json:"key,omitempty"`
	Value         json.RawMessage `json:"value,omitempty"`
	Headers       json.RawMessage `json:"headers,omitempty"`
	KeySchema     *schema         `json:"keySchemaMetadata,omitempty"`
	ValueSchema   *schema         `json:"valueSchemaMetadata,omitempty"`
	LeaderEpoch   json.RawMessage `json:"leaderEpoch,omitempty"` // not sent today
	Provenance    json.RawMessage `json:"provenance,omitempty"`  // not sent today
}

// schema is what an event source mapping with a schema registry adds to a record
// (https://docs.aws.amazon.com/lambda/latest/dg/services-consume-kafka-events.html, field names as in
// https://github.com/aws/aws-lambda-java-libs/pull/548). The ID is a UUID in AWS Glue, a number in Confluent's registry, and
// comes as a string in both cases.
type schema struct {
	DataFormat string `json:"dataFormat"`
	SchemaID   string `json:"schemaId"`
}

// header is one Kafka header. Kafka allows several of one name.
type header struct {
	name  string
	value []byte
}

// msk is an event of an MSK cluster. Records of one partition come in the order given, partitions in the order of their first record.
func msk(records ...record) event {
	return event{
		EventSource:      "aws:kafka",
		EventSourceARN:   "arn:aws:kafka:eu-central-1:123456789012:cluster/payments/0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0-4",
		BootstrapServers: "b-1.payments.a1bcde.c4.kafka.eu-central-1.amazonaws.com:9098,b-2.payments.a1bcde.c4.kafka.eu-central-1.amazonaws.com:9098",
		Records:          byPartition(records),
	}
}

// selfManaged is an event of a cluster that AWS does not run: it has no ARN. AWS's own samples once said "aws:SelfManagedKafka",
// Lambda sends "SelfManagedKafka" (https://github.com/aws-powertools/powertools-lambda-python/issues/5559).
func selfManaged(records ...record) event {
	return event{
		EventSource:      "SelfManagedKafka",
		BootstrapServers: "kafka-1.example.com:9094,kafka-2.example.com:9094",
		Records:          byPartition(records),
	}
}

func byPartition(records []record) partitions {
	groups := partitions{}
	index := make(map[string]int)
	for _, r := range records {
		key := fmt.Sprintf("%s-%d", r.Topic, r.Partition)
		i, known := index[key]
		if !known {
			i = len(groups)
			index[key] = i
			groups = append(groups, partition{key: key})
		}
		groups[i].records = append(groups[i].records, r)
	}
	return groups
}

// MarshalJSON writes the entries as one object, in their order.
func (ps partitions) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, p := range ps {
		key, err := json.Marshal(p.key)
		if err != nil {
			return nil, err
		}
		records, err := json.Marshal(p.records)
		if err != nil {
			return nil, fmt.Errorf("partition %s: %w", p.key, err)
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(records)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func (r record) withKey(key json.RawMessage) record         { r.Key = key; return r }
func (r record) withValue(value json.RawMessage) record     { r.Value = value; return r }
func (r record) withHeaders(headers json.RawMessage) record { r.Headers = headers; return r }
func (r record) onTopic(topic string) record                { r.Topic = topic; return r }

// null is a field that is there and null.
func null() json.RawMessage { return json.RawMessage("null") }

// encoded is a key or value as Lambda sends it: in base64.
func encoded(data string) json.RawMessage {
	return quoted(base64.StdEncoding.EncodeToString([]byte(data)))
}

// quoted is a JSON string of printable ASCII without quotes and backslashes.
func quoted(s string) json.RawMessage { return json.RawMessage(`"` + s + `"`) }

// headers are a list of one-entry objects, each value a list of signed bytes, because Lambda's poller writes Java's byte[]
// (https://github.com/aws/aws-lambda-go/pull/506).
func headers(hs ...header) json.RawMessage {
	items := make([]string, 0, len(hs))
	for _, h := range hs {
		items = append(items, fmt.Sprintf(`{"%s":%s}`, h.name, signedBytes(h.value)))
	}
	return json.RawMessage("[" + strings.Join(items, ",") + "]")
}

func signedBytes(value []byte) string {
	numbers := make([]string, 0, len(value))
	for _, b := range value {
		n := int(b)
		if n > 127 {
			n -= 256
		}
		numbers = append(numbers, strconv.Itoa(n))
	}
	return "[" + strings.Join(numbers, ",") + "]"
}

func idempotencyKey(key string) header { return header{keyHeader, []byte(key)} }

// pretty renders v indented, but a list of numbers on one line: a header's bytes on separate lines would be unreadable.
func pretty(v any) ([]byte, error) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	// A line break in the text is never inside a JSON string, so this matches lists only.
	numbers := regexp.MustCompile(`\[\n\s+-?\d+(,\n\s+-?\d+)*\n\s+\]`)
	breaks := regexp.MustCompile(`\n\s+`)
	data = numbers.ReplaceAllFunc(data, func(list []byte) []byte {
		list = bytes.ReplaceAll(list, []byte(",\n"), []byte(", \n"))
		return breaks.ReplaceAll(list, nil)
	})
	return append(data, '\n'), nil
}

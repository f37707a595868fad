package foreign_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/redrive/foreign"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
)

func header(name, value string) kgo.RecordHeader {
	return kgo.RecordHeader{Key: name, Value: []byte(value)}
}

// springRecord returns the record that DeadLetterPublishingRecoverer publishes for orders-2@258, with the
// producer's header trace in front.
func springRecord() *kgo.Record {
	return &kgo.Record{
		Topic: "orders-dlt", Key: []byte("k"), Value: []byte("v"), Timestamp: time.UnixMilli(1_700_000_000_000),
		Headers: []kgo.RecordHeader{
			header("trace", "t"),
			header("kafka_dlt-exception-fqcn", "org.springframework.kafka.listener.ListenerExecutionFailedException"),
			header("kafka_dlt-exception-cause-fqcn", "java.lang.IllegalStateException"),
			header("kafka_dlt-exception-message", "Listener failed; no such account"),
			header("kafka_dlt-exception-stacktrace", "at …"),
			header("kafka_dlt-original-topic", "orders"),
			header("kafka_dlt-original-partition", "\x00\x00\x00\x02"),
			header("kafka_dlt-original-offset", "\x00\x00\x00\x00\x00\x00\x01\x02"),
			header("kafka_dlt-original-timestamp", "\x00\x00\x01\x8b\xcf\xe5\x68\x00"),
			header("kafka_dlt-original-timestamp-type", "CreateTime"),
			header("kafka_dlt-original-consumer-group", "billing"),
		},
	}
}

// springLetter is the letter of that record.
func springLetter() kafka.DeadLetter {
	return kafka.DeadLetter{
		Topic: "orders", Partition: 2, Offset: 258, Timestamp: 1_700_000_000_000, TimestampType: "CREATE_TIME",
		Key: []byte("k"), Value: []byte("v"), Headers: []kafka.DeadHeader{{Key: "trace", Value: []byte("t")}},
		Function: "billing", Error: store.Failure{Code: "java.lang.IllegalStateException",
			Message: "Listener failed; no such account", At: time.UnixMilli(1_700_000_000_000).UTC()},
	}
}

func TestSpring(t *testing.T) {
	for name, change := range map[string]func(r *kgo.Record){
		"of the recoverer": func(*kgo.Record) {},
		"of a retryable topic": func(r *kgo.Record) {
			for i := range r.Headers {
				r.Headers[i].Key = strings.Replace(r.Headers[i].Key, "kafka_dlt-", "kafka_", 1)
			}
			r.Headers = append(r.Headers, header("retry_topic-attempts", "\x00\x00\x00\x03"))
		},
		"with what the container and a deserializer add": func(r *kgo.Record) {
			r.Headers = append(r.Headers, header("springDeserializerExceptionValue", "\xac\xed"),
				header("springDeserializerExceptionKey", "\xac\xed"), header("kafka_deliveryAttempt", "\x00\x00\x00\x02"),
				header("kafka_listenerInfo", "billing"))
		},
		"through several topics": func(r *kgo.Record) {
			r.Headers = append(r.Headers, header("kafka_dlt-original-topic", "orders-retry"),
				header("kafka_dlt-original-partition", "\x00\x00\x00\x09"),
				header("kafka_dlt-original-offset", "\x00\x00\x00\x00\x00\x00\x00\x09"))
		},
	} {
		r := springRecord()
		change(r)
		l, ok, err := foreign.ParseSpring(r)
		if want := springLetter(); err != nil || !ok || !reflect.DeepEqual(l, want) {
			t.Errorf("%s: %v, %v\n got %+v\nwant %+v", name, ok, err, l, want)
		}
	}
}

// The headers of a failure can be left out, and so can those of a key that can't be deserialized.
func TestSpringWithFewHeaders(t *testing.T) {
	r := springRecord()
	r.Headers = append(r.Headers[5:8], header("kafka_dlt-key-exception-message", "bad key"))
	l, ok, err := foreign.ParseSpring(r)
	if err != nil || !ok || l.Source() != "orders-2@258" || l.Error.Code != "unknown" ||
		l.Error.Message != "bad key" || l.TimestampType != "" || len(l.Headers) != 0 {
		t.Errorf("%+v, %v, %v", l, ok, err)
	}
}

func TestNotOfSpring(t *testing.T) {
	if _, ok, err := foreign.ParseSpring(&kgo.Record{Headers: []kgo.RecordHeader{header("trace", "t"),
		header("kafka_dlt-original-offset", "\x00\x00\x00\x00\x00\x00\x01\x02")}}); ok || err != nil {
		t.Errorf("%v, %v: it names no topic", ok, err)
	}
	for name, value := range map[string]string{
		"kafka_dlt-original-partition": "12", "kafka_dlt-original-offset": "\xff\xff\xff\xff\xff\xff\xff\xff",
	} {
		r := springRecord()
		for i := range r.Headers {
			if r.Headers[i].Key == name {
				r.Headers[i].Value = []byte(value)
			}
		}
		if _, ok, err := foreign.ParseSpring(r); !ok || err == nil ||
			!strings.Contains(err.Error(), "a dead letter of Spring that can't be read") {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
}

package foreign

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
)

// The beginnings of the names of the headers that say where a record was and why it failed: those of
// DeadLetterPublishingRecoverer, and those of topics of @RetryableTopic.
// https://docs.spring.io/spring-kafka/reference/kafka/annotation-error-handling.html#dead-letters
const (
	recoverer      = "kafka_dlt-"
	retryableTopic = "kafka_"
)

// springs reports whether a header is one that Spring adds: with the place, with the exceptions of a handler or a
// deserializer, and with what a container tells its listener.
func springs(name string) bool {
	return slices.ContainsFunc([]string{
		recoverer, "kafka_original-", "kafka_exception-", "kafka_key-exception-", "retry_topic-",
		"springDeserializerException", "kafka_deliveryAttempt", "kafka_listenerInfo",
	}, func(begin string) bool { return strings.HasPrefix(name, begin) })
}

// ParseSpring reads the dead letter in a record that Spring has published. ok reports whether the record is
// one. A record that went through several topics has its places in order: the first one counts.
func ParseSpring(r *kgo.Record) (l kafka.DeadLetter, ok bool, err error) {
	h := springHeaders{r.Headers, recoverer}
	if h.first("original-topic") == nil {
		h.form = retryableTopic
	}
	if h.first("original-topic") == nil {
		return l, false, nil
	}
	l = kafka.DeadLetter{
		Topic: string(h.first("original-topic")), Key: r.Key, Value: r.Value,
		TimestampType: timestampTypes()[string(h.first("original-timestamp-type"))],
		Function:      string(h.first("original-consumer-group")),
		Error: store.Failure{
			Code: cmp.Or(h.last("exception-cause-fqcn"), h.last("exception-fqcn"), h.last("key-exception-fqcn"),
				"unknown"),
			Message: cmp.Or(h.last("exception-message"), h.last("key-exception-message")),
			At:      r.Timestamp.UTC(),
		},
	}
	if err := h.numbers(&l); err != nil {
		return l, true, fmt.Errorf("a dead letter of Spring that can't be read: %w", err)
	}
	for _, header := range r.Headers {
		if !springs(header.Key) {
			l.Headers = append(l.Headers, kafka.DeadHeader(header))
		}
	}
	return l, true, nil
}

// timestampTypes are the names of Kafka's types of timestamps in events, by those of Kafka's Java client.
func timestampTypes() map[string]string {
	return map[string]string{"CreateTime": "CREATE_TIME", "LogAppendTime": "LOG_APPEND_TIME"}
}

// springHeaders are the headers of a record, of which those of Spring have a beginning.
type springHeaders struct {
	all  []kgo.RecordHeader
	form string
}

// first returns the value of the first header of a name, nil if there is none.
func (h *springHeaders) first(name string) []byte {
	for _, header := range h.all {
		if header.Key == h.form+name {
			return header.Value
		}
	}
	return nil
}

func (h *springHeaders) last(name string) (value string) {
	for _, header := range h.all {
		if header.Key == h.form+name {
			value = string(header.Value)
		}
	}
	return value
}

// numbers reads the place. Spring writes its numbers big-endian, in 4 and 8 bytes.
func (h *springHeaders) numbers(l *kafka.DeadLetter) error {
	partition, offset := h.first("original-partition"), h.first("original-offset")
	if len(partition) != 4 || len(offset) != 8 {
		return fmt.Errorf("its headers %soriginal-partition and %[1]soriginal-offset have %d and %d bytes: want 4 and 8, big-endian numbers",
			h.form, len(partition), len(offset))
	}
	l.Partition = int32(binary.BigEndian.Uint32(partition))
	l.Offset = int64(binary.BigEndian.Uint64(offset))
	if at := h.first("original-timestamp"); len(at) == 8 {
		l.Timestamp = max(0, int64(binary.BigEndian.Uint64(at)))
	}
	if l.Partition < 0 || l.Offset < 0 {
		return fmt.Errorf("its place is %s", l.Source())
	}
	return nil
}

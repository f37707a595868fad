package layercall

import (
	"bytes"
	"encoding/json"

	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/lambda/sqs"
)

// IsProtected reports whether an event is that of an event source mapping of Kafka or SQS, which NewContext
// reads.
func IsProtected(event []byte) bool { return mskevent.IsKafka(event) || sqs.IsEvent(event) }

// HasRecords reports whether an event that is not protected has records of Kafka or messages of SQS: the list
// that EventBridge Pipes sends, or the event of an event source mapping without its eventSource. It does not
// read the event beyond the first of them.
func HasRecords(event []byte) bool {
	d := json.NewDecoder(bytes.NewReader(event))
	switch first, _ := d.Token(); first {
	case json.Delim('['):
		return d.More() && isRecord(d)
	case json.Delim('{'):
		for d.More() {
			var other json.RawMessage
			switch name, err := d.Token(); {
			case err != nil:
				return false
			case name == "records", name == "Records":
				return hasRecords(d)
			case d.Decode(&other) != nil:
				return false
			}
		}
	}
	return false
}

// hasRecords reads the list of records, or that of the first partition that has one.
func hasRecords(d *json.Decoder) bool {
	first, _ := d.Token()
	for first == json.Delim('{') && d.More() {
		_, _ = d.Token() // the partition
		if list, _ := d.Token(); list != json.Delim('[') {
			return false
		}
		if d.More() {
			return isRecord(d)
		}
		_, _ = d.Token() // the end of an empty list
	}
	return first == json.Delim('[') && d.More() && isRecord(d)
}

func isRecord(d *json.Decoder) bool {
	var fields map[string]json.RawMessage
	if d.Decode(&fields) != nil {
		return false
	}
	has := func(names ...string) bool {
		for _, name := range names {
			if fields[name] == nil {
				return false
			}
		}
		return true
	}
	return has("topic", "partition", "offset") || has("messageId", "receiptHandle") || has("messageId", "body")
}

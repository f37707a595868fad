package local

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/console"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// maxDelivered is the maximum number of records of an invocation that are shown with their outcomes.
const maxDelivered = 200

// shownRecord is a record as it is in an event. The bytes of a header are numbers.
type shownRecord struct {
	Timestamp int64              `json:"timestamp"`
	Key       []byte             `json:"key"`
	Value     []byte             `json:"value"`
	Headers   []map[string][]int `json:"headers"`
}

// shownRecordOf returns what a page shows of a record.
func shownRecordOf(record *esm.Record) console.Delivered {
	out := console.Delivered{Place: record.Place().String(), Headers: []console.Header{}}
	var in shownRecord
	if err := json.Unmarshal(record.JSON, &in); err != nil { // a recorded event may have any form
		out.Value = cutText(term.Text(record.JSON))
		return out
	}
	out.KafkaKey, out.Value = cutText(term.Text(in.Key)), cutText(term.Text(in.Value))
	if in.Timestamp > 0 {
		out.At = time.UnixMilli(in.Timestamp).UnixMicro()
	}
	for _, header := range in.Headers {
		for name, numbers := range header {
			value := make([]byte, len(numbers))
			for i, n := range numbers {
				value[i] = byte(n) // with or without a sign
			}
			out.Headers = append(out.Headers, console.Header{Name: name, Value: cutText(term.Text(value))})
		}
	}
	return out
}

// delivered returns the records of an invocation with what became of their keys during it. The caller holds
// r.mu.
func (r *recorder) delivered(in *invocation) []console.Delivered {
	all := []console.Delivered{}
	duplicates := duplicatesOf(in.log)
	for i := range in.delivered[:min(len(in.delivered), maxDelivered)] {
		shown := shownRecordOf(&in.delivered[i])
		if key := duplicates[shown.Place]; key != "" {
			shown.Key, shown.Outcome = key, console.InBatchDuplicate
		} else if k := r.places[in.delivered[i].Place()]; k != nil {
			shown.Key = k.key
			for _, e := range slices.Backward(k.events) {
				if e.in == in {
					shown.Outcome = e.Kind
					break
				}
			}
		}
		all = append(all, shown)
	}
	return all
}

// duplicatesOf returns the keys, by place, of the records that share the outcome of another record of their
// batch. No request is made for them, so that only the log tells of them.
func duplicatesOf(log []string) map[string]string {
	keys := make(map[string]string)
	for _, text := range log {
		var line struct {
			Source, Key string
			Duplicate   bool
		}
		if strings.Contains(text, `"duplicate":true`) && json.Unmarshal([]byte(text), &line) == nil &&
			line.Duplicate {
			keys[line.Source] = line.Key
		}
	}
	return keys
}

// recordOf returns the record of a key that was delivered last, from the invocations that are kept; nil if
// none has it. The caller holds r.mu.
func (r *recorder) recordOf(k *keyHistory) *console.Delivered {
	for _, e := range slices.Backward(k.events) {
		if e.in == nil {
			continue
		}
		for i := range e.in.delivered {
			if r.places[e.in.delivered[i].Place()] == k {
				shown := shownRecordOf(&e.in.delivered[i])
				shown.Key = k.key
				return &shown
			}
		}
	}
	return nil
}

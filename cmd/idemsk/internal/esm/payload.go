package esm

import (
	"encoding/json"
	"slices"
	"strings"
)

// envelope is what stands in an event before its records.
type envelope []byte

// newEnvelope makes it for a cluster.
func newEnvelope(eventSourceARN string, brokers []string) envelope {
	quote := func(s string) string {
		quoted, _ := json.Marshal(s) // a string encodes
		return string(quoted)
	}
	return envelope(`{"eventSource":"aws:kafka","eventSourceArn":` + quote(eventSourceARN) +
		`,"bootstrapServers":` + quote(strings.Join(brokers, ",")) + `,"records":{`)
}

const closing = "}}"

// size counts the bytes of an event while records are added to it.
type size struct {
	bytes      int
	partitions []int32
}

func (e envelope) size() size { return size{bytes: len(e) + len(closing)} }

// with is the size when a record is added.
func (s size) with(r *Record) size {
	s.bytes += len(r.json)
	if slices.Contains(s.partitions, r.Partition) {
		s.bytes += len(",")
		return s
	}
	if len(s.partitions) > 0 {
		s.bytes += len(",")
	}
	s.bytes += len(r.partitionID()) + len(`"":[]`) // topics hold no character that JSON escapes
	s.partitions = append(s.partitions[:len(s.partitions):len(s.partitions)], r.Partition)
	return s
}

// payload is the event of some records of one topic: its partitions in the order of their first record.
func (e envelope) payload(records []Record) []byte {
	total := e.size()
	for i := range records {
		if total.bytes += len(records[i].json) + 1; !slices.Contains(total.partitions, records[i].Partition) {
			total.partitions = append(total.partitions, records[i].Partition)
			total.bytes += len(records[i].partitionID()) + len(`"":[],`)
		}
	}
	out := append(make([]byte, 0, total.bytes), e...)
	for i, partition := range total.partitions {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendPartition(out, records, partition)
	}
	return append(out, closing...)
}

func appendPartition(out []byte, records []Record, partition int32) []byte {
	first := true
	for i := range records {
		r := &records[i]
		if r.Partition != partition {
			continue
		}
		if first {
			out = append(append(append(out, '"'), r.partitionID()...), `":[`...)
			first = false
		} else {
			out = append(out, ',')
		}
		out = append(out, r.json...)
	}
	return append(out, ']')
}

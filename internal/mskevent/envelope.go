package mskevent

import "strings"

// Envelope holds the fields of an event before its records.
type Envelope []byte

const closing = "}}"

// MSK returns the envelope of an Amazon MSK cluster.
func MSK(arn string, brokers ...string) Envelope {
	source := appendField(nil, "eventSource", "aws:kafka")
	source = appendField(source, "eventSourceArn", arn)
	return open(appendField(source, "bootstrapServers", strings.Join(brokers, ",")))
}

// Cluster returns the envelope of a cluster by its name in dead letters: the ARN of an MSK cluster, or the
// bootstrap servers of a self-managed one. Without a name the envelope has neither.
func Cluster(name string) Envelope {
	switch {
	case name == "":
		return open(appendField(nil, "eventSource", "aws:kafka"))
	case strings.HasPrefix(name, "arn:"):
		return open(appendField(appendField(nil, "eventSource", "aws:kafka"), "eventSourceArn", name))
	}
	return open(appendField(appendField(nil, "eventSource", "SelfManagedKafka"), "bootstrapServers", name))
}

// WithOutcomes returns the envelope of an event whose answer is to have the outcome of each record: see
// Outcomes.
func (e Envelope) WithOutcomes() Envelope {
	return append(appendField([]byte{'{'}, outcomes, "all"), e[1:]...)
}

func appendField(dst []byte, name, value string) []byte {
	return append(appendString(append(appendString(dst, name), ':'), value), ',')
}

// open makes an envelope of the fields beside the records, each with a comma behind it.
func open(source []byte) Envelope {
	return append(append([]byte{'{'}, source...), `"records":{`...)
}

// Size counts the bytes of an event while records are added to it.
type Size struct {
	Bytes      int
	partitions []string
}

// Size returns the size of an event without records.
func (e Envelope) Size() Size { return Size{Bytes: len(e) + len(closing)} }

// With returns the size after a record is added.
func (s Size) With(r *Record) Size {
	s.Bytes += len(r.JSON)
	for _, id := range s.partitions {
		if id == r.PartitionID {
			s.Bytes += len(",")
			return s
		}
	}
	if len(s.partitions) > 0 {
		s.Bytes += len(",")
	}
	s.Bytes += len(appendString(nil, r.PartitionID)) + len(`:[]`)
	s.partitions = append(s.partitions[:len(s.partitions):len(s.partitions)], r.PartitionID)
	return s
}

// Event returns the event of some records. Its partitions are in the order of their first records.
func (e Envelope) Event(n int, record func(i int) *Record) []byte {
	total := e.Size()
	for i := range n {
		total = total.With(record(i))
	}
	out := append(make([]byte, 0, total.Bytes), e...)
	for i, id := range total.partitions {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(appendString(out, id), ":["...)
		first := true
		for i := range n {
			r := record(i)
			if r.PartitionID != id {
				continue
			}
			if !first {
				out = append(out, ',')
			}
			first = false
			out = append(out, r.JSON...)
		}
		out = append(out, ']')
	}
	return append(out, closing...)
}

// Messages returns the event of some messages.
func (e Envelope) Messages(messages ...Message) []byte {
	records := make([]Record, 0, len(messages))
	for i := range messages {
		records = append(records, messages[i].Record())
	}
	return e.Event(len(records), func(i int) *Record { return &records[i] })
}

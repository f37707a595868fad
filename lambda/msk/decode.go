package msk

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/idemsk/idemsk/kafka"
)

// Decode parses a Kafka event as Lambda's event source mapping delivers it, for MSK and for self-managed
// clusters.
//
// Every error is [ErrNotKafka] and concerns the whole event: the payload is not JSON, or comes from another
// service, or contains a record whose topic, partition or offset can't be read, so that it could not be
// reported. A payload with a duplicate map key is refused, because taking the last one, as JSON parsers do,
// would lose the records of the first. Any other defect of a record is its [kafka.Record.Undecodable], and
// does not affect other records.
//
// JSON is accepted as encoding/json accepts it (nesting up to 10,000 levels, invalid UTF-8 replaced, the last
// of several fields with the same name), except that names are case sensitive. Unknown fields are ignored. A
// null field counts as absent. The topic and the partition of a record may be absent, but must not contradict
// the map key. Header values are arrays of bytes, which Lambda writes signed. Unsigned bytes are accepted
// too, so a byte is −128 to 255.
//
// The payload may be reused when Decode has returned.
func Decode(payload []byte) (*Event, error) {
	d := decoder{
		scanner: scanner{data: payload},
		bytes:   slab[byte]{next: 1 << 10, most: 1 << 16},
		headers: slab[kafka.Header]{next: 1 << 3, most: 1 << 10},
		schemas: slab[kafka.Schema]{next: 1 << 3, most: 1 << 10},
	}
	event := d.event()
	if d.err != nil {
		return nil, d.err
	}
	return event, nil
}

// decoder decodes one event. Records, and the bytes and headers in them, are allocated in a few large blocks.
type decoder struct {
	scanner
	records []kafka.Record // the records of all partitions so far, of which each partition has a part
	bytes   slab[byte]
	headers slab[kafka.Header]
	schemas slab[kafka.Schema]
	names   map[string]string // strings that occur repeatedly, each stored once
	header  []kafka.Header    // the headers of one record, while their number is unknown
	scratch []byte            // the bytes of one header value, likewise
}

// event decodes the whole payload.
func (d *decoder) event() *Event {
	if d.peek() != '{' {
		d.failf("the payload is %s, not an object", d.value().kind())
		return nil
	}
	var event Event
	var source, arn, servers raw
	for more := d.open('{'); more; more = d.next('}') {
		switch string(d.name()) {
		case "eventSource":
			source = d.value()
		case "eventSourceArn":
			arn = d.value()
		case "bootstrapServers":
			servers = d.value()
		case "idemskOutcomes": // see internal/mskevent
			event.Outcomes = !d.value().absent()
		case "records":
			if event.Partitions != nil {
				d.failf(`it has "records" twice, the second time at byte %d`, d.pos)
			}
			event.Partitions = d.partitions()
		default:
			d.value()
		}
	}
	d.end()
	event.Source = d.envelope("eventSource", source)
	event.SourceARN = d.envelope("eventSourceArn", arn)
	event.BootstrapServers = d.envelope("bootstrapServers", servers)
	switch event.Source {
	case "", "aws:kafka", "SelfManagedKafka", "aws:SelfManagedKafka":
	default:
		d.failf("its eventSource is %q: check which trigger invokes this function", event.Source)
	}
	if event.Partitions == nil {
		d.failf(`it has no "records" (capitalised "Records" are those of SQS, SNS, S3, Kinesis and DynamoDB): check which trigger invokes this function`)
	}
	return &event
}

// envelope returns one of the event's own fields, which are strings.
func (d *decoder) envelope(name string, v raw) string {
	if v.absent() {
		return ""
	}
	if !v.isText() {
		d.failf("its %s is %v, not a string", name, v)
		return ""
	}
	return string(v.text())
}

// partition is one member of the map of records.
type partition struct {
	id      string // topic and number
	topic   string
	number  int32
	records []kafka.Record
}

// partitions decodes the map of records. It is never nil.
func (d *decoder) partitions() [][]kafka.Record {
	if d.peek() != '{' {
		d.failf(`its "records" are %s, not an object of partitions`, d.value().kind())
		return [][]kafka.Record{}
	}
	var partitions []partition
	for more := d.open('{'); more; more = d.next('}') {
		partitions = append(partitions, d.partition())
	}
	slices.SortFunc(partitions, func(a, b partition) int {
		return cmp.Or(strings.Compare(a.topic, b.topic), cmp.Compare(a.number, b.number))
	})
	all := make([][]kafka.Record, 0, len(partitions))
	for i, p := range partitions {
		if i > 0 && p.id == partitions[i-1].id {
			d.failf("it has the partition %q twice: taking one would lose the records of the other", p.id)
		}
		if len(p.records) > 0 {
			all = append(all, p.records)
		}
	}
	return all
}

// partition decodes one member of the map of records.
func (d *decoder) partition() partition {
	p := partition{id: string(d.name())}
	dash := strings.LastIndexByte(p.id, '-')
	number, ok := partitionNumber(p.id[dash+1:])
	if dash <= 0 || !ok {
		d.failf("its records have the key %q, which is not <topic>-<partition number>", p.id)
		return p
	}
	p.topic, p.number = p.id[:dash], number
	if d.peek() != '[' {
		d.failf("records[%q] is %s, not an array", p.id, d.value().kind())
		return p
	}
	first := len(d.records)
	for more := d.open('['); more; more = d.next(']') {
		d.record(&p, len(d.records)-first)
	}
	p.records = d.records[first:len(d.records):len(d.records)]
	byOffset := func(a, b kafka.Record) int { return cmp.Compare(a.Offset, b.Offset) }
	if !slices.IsSortedFunc(p.records, byOffset) {
		slices.SortStableFunc(p.records, byOffset)
	}
	return p
}

// partitionNumber parses the number in a map key. Only its canonical form is accepted, so that two keys never
// denote one partition.
func partitionNumber(text string) (n int32, ok bool) {
	v, err := strconv.ParseInt(text, 10, 32)
	return int32(v), err == nil && strconv.FormatInt(v, 10) == text
}

// The JSON fields of a record.
const (
	fieldTopic         = "topic"
	fieldPartition     = "partition"
	fieldOffset        = "offset"
	fieldTimestamp     = "timestamp"
	fieldTimestampType = "timestampType"
	fieldKey           = "key"
	fieldValue         = "value"
	fieldHeaders       = "headers"
	fieldKeySchema     = "keySchemaMetadata"
	fieldValueSchema   = "valueSchemaMetadata"
)

// fields has a record's JSON fields. Their syntax is checked. Except for the headers, they are not decoded
// yet.
type fields struct {
	topic, partition, offset, timestamp, timestampType, key, value, keySchema, valueSchema raw

	headers    []kafka.Header // already decoded; see headerList
	badHeaders error
}

// fields parses a record, which must be an object.
func (d *decoder) fields() (f fields) {
	for more := d.open('{'); more; more = d.next('}') {
		switch string(d.name()) {
		case fieldTopic:
			f.topic = d.value()
		case fieldPartition:
			f.partition = d.value()
		case fieldOffset:
			f.offset = d.value()
		case fieldTimestamp:
			f.timestamp = d.value()
		case fieldTimestampType:
			f.timestampType = d.value()
		case fieldKey:
			f.key = d.value()
		case fieldValue:
			f.value = d.value()
		case fieldHeaders:
			f.headers, f.badHeaders = d.headerList()
		case fieldKeySchema:
			f.keySchema = d.value()
		case fieldValueSchema:
			f.valueSchema = d.value()
		default:
			d.value()
		}
	}
	return f
}

// record decodes the record with index i of its partition in the payload.
func (d *decoder) record(p *partition, i int) {
	if d.peek() != '{' {
		d.failf("records[%q][%d] is %s, not an object", p.id, i, d.value().kind())
		return
	}
	start := d.pos
	f := d.fields()
	if d.err != nil {
		return
	}
	offset, ok := f.offset.integer()
	if !ok || offset < 0 {
		d.failf("records[%q][%d].offset, at byte %d, is %v, not a whole number from 0 to 2^63-1: the record can't be "+
			"identified without it, so the event is not processed", p.id, i, start, f.offset)
		return
	}
	if len(d.records) == cap(d.records) {
		d.records = slices.Grow(d.records, d.expected(d.pos-start))
	}
	d.records = d.records[:len(d.records)+1]
	r := &d.records[len(d.records)-1]
	r.Topic, r.Partition, r.Offset = p.topic, p.number, offset
	if r.Undecodable = d.fill(r, &f); r.Undecodable != nil {
		r.Undecodable.Raw = bytes.Clone(d.data[start:d.pos])
	}
}

// expected estimates how many records are left including this one, whose size is size bytes. The first record
// may be unusually small, so the estimate is bounded.
func (d *decoder) expected(size int) int {
	const most = 1 << 10
	return min((len(d.data)-d.pos)/size+1, most)
}

// fill decodes the fields of a record whose position is known, and returns the error of the first that can't
// be decoded.
func (d *decoder) fill(r *kafka.Record, f *fields) *kafka.DecodeError {
	x := extractor{decoder: d}
	x.sameTopic(f.topic, r.Topic)
	x.samePartition(f.partition, r.Partition)
	r.Timestamp = x.time(fieldTimestamp, f.timestamp)
	r.TimestampType = x.text(fieldTimestampType, f.timestampType)
	r.Key = x.base64(fieldKey, f.key)
	r.Value = x.base64(fieldValue, f.value)
	r.Headers = x.headers(f.headers, f.badHeaders)
	r.KeySchema = x.schema(fieldKeySchema, f.keySchema)
	r.ValueSchema = x.schema(fieldValueSchema, f.valueSchema)
	if x.failures == 0 {
		return nil
	}
	return &kafka.DecodeError{Source: r.Source(), Field: x.field, Err: x.cause}
}

// intern returns b as a string. Equal bytes share one string.
func (d *decoder) intern(b []byte) string {
	if s, ok := d.names[string(b)]; ok {
		return s
	}
	if d.names == nil {
		d.names = make(map[string]string)
	}
	s := string(b)
	d.names[s] = s
	return s
}

// slab allocates small slices from larger blocks. The size of the blocks grows from next to most elements.
type slab[T any] struct {
	next, most int
	free       []T
}

// take returns n zero elements. Their capacity is n, so that appending to them reallocates.
func (s *slab[T]) take(n int) []T {
	if n == 0 {
		return []T{}
	}
	if n > len(s.free) {
		if n > s.next {
			return make([]T, n)
		}
		s.free = make([]T, s.next)
		s.next = min(2*s.next, s.most)
	}
	out := s.free[:n:n]
	s.free = s.free[n:]
	return out
}

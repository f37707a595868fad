package msk

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"math"
	"time"

	"github.com/idemsk/idemsk/kafka"
)

// extractor decodes the fields of one record. It keeps the first error.
type extractor struct {
	decoder  *decoder
	field    string
	cause    error
	failures int
}

func (x *extractor) failf(field, format string, args ...any) {
	if x.failures++; x.failures == 1 {
		x.field, x.cause = field, fmt.Errorf(format, args...)
	}
}

// sameTopic and samePartition compare a record's own fields with its position in the event.
func (x *extractor) sameTopic(v raw, want string) {
	if !v.absent() && (!v.isText() || string(v.text()) != want) {
		x.failf(fieldTopic, "it is %v, but the record is under %q in the event", v, want)
	}
}

func (x *extractor) samePartition(v raw, want int32) {
	if v.absent() {
		return
	}
	if n, ok := v.integer(); !ok || n != int64(want) {
		x.failf(fieldPartition, "it is %v, but the record is under partition %d in the event", v, want)
	}
}

// noTimestamp is Kafka's value for a record without a timestamp.
const noTimestamp = -1

func (x *extractor) time(field string, v raw) time.Time {
	if v.absent() {
		return time.Time{}
	}
	ms, ok := v.integer()
	if !ok {
		x.failf(field, "it is %v, not a whole number of milliseconds", v)
		return time.Time{}
	}
	if ms == noTimestamp {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func (x *extractor) text(field string, v raw) string {
	if v.absent() {
		return ""
	}
	if !v.isText() {
		x.failf(field, "it is %v, not a string", v)
		return ""
	}
	return x.decoder.intern(v.text())
}

func (x *extractor) base64(field string, v raw) []byte {
	if v.absent() {
		return nil
	}
	if !v.isText() {
		x.failf(field, "it is %s, not base64 in a string", v.kind())
		return nil
	}
	text := v[1 : len(v)-1]
	if bytes.IndexByte(text, '\\') >= 0 {
		text = v.text() // some encoders escape a slash as \/
	}
	out := x.decoder.bytes.take(base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(out, text)
	if err != nil {
		x.failf(field, "%w", err)
		return nil
	}
	return out[:n:n]
}

func (x *extractor) headers(headers []kafka.Header, bad error) []kafka.Header {
	if bad != nil {
		x.failf(fieldHeaders, "%w", bad)
	}
	return headers
}

func (x *extractor) schema(field string, v raw) *kafka.Schema {
	if v.absent() {
		return nil
	}
	if !v.isObject() {
		x.failf(field, "it is %v, not an object", v)
		return nil
	}
	var id, format raw
	object := scanner{data: v}
	for more := object.open('{'); more; more = object.next('}') {
		switch string(object.name()) {
		case "schemaId":
			id = object.value()
		case "dataFormat":
			format = object.value()
		default:
			object.value()
		}
	}
	failures := x.failures
	var schema kafka.Schema
	if id.isNumber() { // as Confluent's are
		schema.ID = x.decoder.intern(id)
	} else {
		schema.ID = x.text(field, id)
	}
	schema.DataFormat = x.text(field, format)
	if x.failures > failures {
		return nil
	}
	out := &x.decoder.schemas.take(1)[0]
	*out = schema
	return out
}

// headerList parses and decodes a record's headers: an array of objects, each of which normally has one
// header. Headers are decoded at once, unlike the other fields, because parsing the number of each byte twice
// would be half of the cost of a record.
func (d *decoder) headerList() (headers []kafka.Header, bad error) {
	if d.peek() != '[' {
		if v := d.value(); !v.absent() {
			bad = fmt.Errorf("they are %s, not an array", v.kind())
		}
		return nil, bad
	}
	d.header = d.header[:0]
	for more := d.open('['); more; more = d.next(']') {
		if d.peek() != '{' {
			if v := d.value(); !v.absent() {
				bad = cmp.Or(bad, fmt.Errorf("one of them is %s, not an object", v.kind()))
			}
			continue
		}
		for more := d.open('{'); more; more = d.next('}') {
			name := d.intern(d.name())
			value, err := d.headerValue(name)
			bad = cmp.Or(bad, err)
			d.header = append(d.header, kafka.Header{Key: name, Value: value})
		}
	}
	if bad != nil || len(d.header) == 0 {
		return nil, bad
	}
	return append(d.headers.take(len(d.header))[:0], d.header...), nil
}

// headerValue parses and decodes the array of bytes that is the value of a header. Its error quotes nothing
// of the value, which may be the key.
func (d *decoder) headerValue(name string) (value []byte, bad error) {
	if d.peek() != '[' {
		if v := d.value(); !v.absent() {
			bad = fmt.Errorf("%q is %s, not an array of bytes", name, v.kind())
		}
		return nil, bad
	}
	d.scratch = d.scratch[:0]
	for more := d.open('['); more; more = d.next(']') {
		d.scratch = d.shortBytes(d.scratch)
		v := d.value()
		n, ok := v.integer()
		if !ok || n < math.MinInt8 || n > math.MaxUint8 {
			bad = cmp.Or(bad, fmt.Errorf("%q has %s at %d, not a byte (-128 to 255)", name, v.kind(),
				len(d.scratch)))
		}
		d.scratch = append(d.scratch, byte(n))
	}
	if bad != nil {
		return nil, bad
	}
	return append(d.bytes.take(len(d.scratch))[:0], d.scratch...), nil
}

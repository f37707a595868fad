package msk

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/idemsk/idemsk/kafka"
)

// The reference is a second decoder of the same events. It shares no code with the first, uses encoding/json
// alone, and is slow and simple. Both must agree on every payload.

// reference decodes payload, or says that it must be refused.
func reference(payload []byte) (event Event, ok bool) {
	if !json.Valid(payload) || !refIs(bytes.TrimSpace(payload), '{') {
		return Event{}, false
	}
	members := refMembers(payload)
	top := refLast(members)
	source, ok1 := refString(top["eventSource"])
	arn, ok2 := refString(top["eventSourceArn"])
	servers, ok3 := refString(top["bootstrapServers"])
	known := slices.Contains([]string{"", "aws:kafka", "SelfManagedKafka", "aws:SelfManagedKafka"}, source)
	if !ok1 || !ok2 || !ok3 || !known || refCount(members, "records") != 1 || !refIs(top["records"], '{') {
		return Event{}, false
	}
	event = Event{Source: source, SourceARN: arn, BootstrapServers: servers}
	partitions := refMembers(top["records"])
	for _, m := range partitions {
		p, ok := refPartition(m)
		if !ok || refCount(partitions, m.name) != 1 {
			return Event{}, false
		}
		if len(p) > 0 {
			event.Partitions = append(event.Partitions, p)
		}
	}
	slices.SortFunc(event.Partitions, func(a, b []Record) int {
		return cmp.Or(cmp.Compare(a[0].Topic, b[0].Topic), cmp.Compare(a[0].Partition, b[0].Partition))
	})
	return event, true
}

var refPartitionKey = regexp.MustCompile(`(?s)^(.+)-(0|[1-9][0-9]*)$`)

func refPartition(m refMember) ([]Record, bool) {
	parts := refPartitionKey.FindStringSubmatch(m.name)
	if parts == nil || !refIs(m.value, '[') {
		return nil, false
	}
	number, err := strconv.ParseInt(parts[2], 10, 32)
	if err != nil {
		return nil, false
	}
	var p []Record
	for _, raw := range refElements(m.value) {
		r, ok := refRecord(raw, parts[1], int32(number))
		if !ok {
			return nil, false
		}
		p = append(p, r)
	}
	slices.SortStableFunc(p, func(a, b Record) int { return cmp.Compare(a.Offset, b.Offset) })
	return p, true
}

func refRecord(raw json.RawMessage, topic string, partition int32) (r Record, ok bool) {
	if !refIs(raw, '{') {
		return Record{}, false
	}
	f := refLast(refMembers(raw))
	offset, ok := refInt(f["offset"])
	if !ok || offset < 0 {
		return Record{}, false
	}
	r = Record{Topic: topic, Partition: partition, Offset: offset}
	var bad []string
	check := func(field string, ok bool) {
		if !ok {
			bad = append(bad, field)
		}
	}
	own, ok := refString(f["topic"])
	check("topic", ok && (own == topic || refNull(f["topic"])))
	number, ok := refInt(f["partition"])
	check("partition", refNull(f["partition"]) || ok && number == int64(partition))
	if !refNull(f["timestamp"]) {
		ms, ok := refInt(f["timestamp"])
		check("timestamp", ok)
		if ok && ms != -1 {
			r.Timestamp = time.UnixMilli(ms).UTC()
		}
	}
	r.TimestampType, ok = refString(f["timestampType"])
	check("timestampType", ok)
	r.Key, ok = refBase64(f["key"])
	check("key", ok)
	r.Value, ok = refBase64(f["value"])
	check("value", ok)
	r.Headers, ok = refHeaders(f["headers"])
	check("headers", ok)
	r.KeySchema, ok = refSchema(f["keySchemaMetadata"])
	check("keySchemaMetadata", ok)
	r.ValueSchema, ok = refSchema(f["valueSchemaMetadata"])
	check("valueSchemaMetadata", ok)
	if len(bad) > 0 {
		r.Undecodable = &kafka.DecodeError{Source: fmt.Sprintf("%s-%d@%d", topic, partition, offset), Field: bad[0],
			Raw: raw}
	}
	return r, true
}

func refHeaders(raw json.RawMessage) (headers []kafka.Header, ok bool) {
	if refNull(raw) {
		return nil, true
	}
	if !refIs(raw, '[') {
		return nil, false
	}
	for _, object := range refElements(raw) {
		if refNull(object) {
			continue
		}
		if !refIs(object, '{') {
			return nil, false
		}
		for _, m := range refMembers(object) {
			value, ok := refHeaderValue(m.value)
			if !ok {
				return nil, false
			}
			headers = append(headers, kafka.Header{Key: m.name, Value: value})
		}
	}
	return headers, true
}

func refHeaderValue(raw json.RawMessage) (value []byte, ok bool) {
	if refNull(raw) {
		return nil, true
	}
	if !refIs(raw, '[') {
		return nil, false
	}
	value = []byte{}
	for _, element := range refElements(raw) {
		n, ok := refInt(element)
		if !ok || n < -128 || n > 255 {
			return nil, false
		}
		value = append(value, byte(n))
	}
	return value, true
}

func refSchema(raw json.RawMessage) (schema *kafka.Schema, ok bool) {
	if refNull(raw) {
		return nil, true
	}
	if !refIs(raw, '{') {
		return nil, false
	}
	f := refLast(refMembers(raw))
	id, ok1 := refString(f["schemaId"])
	var number json.Number
	if !ok1 && !refIs(f["schemaId"], '"') && json.Unmarshal(f["schemaId"], &number) == nil {
		id, ok1 = number.String(), true
	}
	format, ok2 := refString(f["dataFormat"])
	if !ok1 || !ok2 {
		return nil, false
	}
	return &kafka.Schema{ID: id, DataFormat: format}, true
}

// refMember is one member of a JSON object.
type refMember struct {
	name  string
	value json.RawMessage
}

// refMembers returns the members of a valid object in their order, those with the same name too.
func refMembers(object []byte) (members []refMember) {
	dec := json.NewDecoder(bytes.NewReader(object))
	refMust(dec.Token())
	for dec.More() {
		m := refMember{name: refMust(dec.Token()).(string)}
		if err := dec.Decode(&m.value); err != nil {
			panic(err)
		}
		members = append(members, m)
	}
	return members
}

// refLast returns the members by name, the last of those with the same name.
func refLast(members []refMember) map[string]json.RawMessage {
	m := map[string]json.RawMessage{}
	for _, member := range members {
		m[member.name] = member.value
	}
	return m
}

func refCount(members []refMember, name string) (n int) {
	for _, m := range members {
		if m.name == name {
			n++
		}
	}
	return n
}

func refElements(array []byte) (elements []json.RawMessage) {
	if err := json.Unmarshal(array, &elements); err != nil {
		panic(err)
	}
	return elements
}

func refIs(raw []byte, first byte) bool { return len(raw) > 0 && raw[0] == first }

func refNull(raw []byte) bool { return raw == nil || string(raw) == "null" }

func refInt(raw json.RawMessage) (n int64, ok bool) {
	return n, !refNull(raw) && json.Unmarshal(raw, &n) == nil
}

func refString(raw json.RawMessage) (s string, ok bool) {
	return s, refNull(raw) || json.Unmarshal(raw, &s) == nil
}

func refBase64(raw json.RawMessage) (b []byte, ok bool) {
	if refNull(raw) {
		return nil, true
	}
	if !refIs(raw, '"') { // encoding/json takes an array of numbers too
		return nil, false
	}
	if json.Unmarshal(raw, &b) != nil {
		return nil, false
	}
	return b, true
}

func refMust[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

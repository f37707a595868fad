package msk_test

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
)

// record is a Kafka record of a test. A zero field is absent.
type record struct {
	place    string // topic-partition@offset
	key      string // in the header idempotency-key
	kafkaKey string
	value    string
	null     bool // the value is null
	headers  []kafka.Header
	raw      string // instead of all others but the place: further JSON fields of the record
}

// recordAt returns a record that is sufficient for most tests.
func recordAt(place, key string) record {
	return record{place: place, key: key, value: "value of " + key}
}

// header returns the record with one header more.
func (r record) header(name, value string) record {
	r.headers = append(slices.Clip(r.headers), kafka.Header{Key: name, Value: []byte(value)})
	return r
}

// with returns the record with another value.
func (r record) with(value string) record {
	r.value = value
	return r
}

func place(partition string, offset int64) string {
	return partition + "@" + strconv.FormatInt(offset, 10)
}

// split parses a place.
func split(place string) (id, topic, partition, offset string) {
	id, offset, _ = strings.Cut(place, "@")
	dash := strings.LastIndex(id, "-")
	return id, id[:dash], id[dash+1:], offset
}

// payload returns the event of some records as Lambda sends it: header values are signed bytes. Partitions
// are in the order of their first record.
func payload(records ...record) []byte {
	var ids []string
	parts := map[string][]string{}
	for _, r := range records {
		id, _, _, _ := split(r.place)
		if parts[id] == nil {
			ids = append(ids, id)
		}
		parts[id] = append(parts[id], r.json())
	}
	for i, id := range ids {
		ids[i] = fmt.Sprintf("%q:[%s]", id, strings.Join(parts[id], ","))
	}
	return []byte(`{"eventSource":"aws:kafka","records":{` + strings.Join(ids, ",") + `}}`)
}

func (r record) json() string {
	_, topic, partition, offset := split(r.place)
	out := fmt.Sprintf(`{"topic":%q,"partition":%s,"offset":%s,"timestamp":1767225600000,"timestampType":"CREATE_TIME"`, topic, partition, offset)
	if r.raw != "" {
		return out + "," + r.raw + "}"
	}
	if r.kafkaKey != "" {
		out += fmt.Sprintf(`,"key":%q`, base64.StdEncoding.EncodeToString([]byte(r.kafkaKey)))
	}
	if !r.null {
		out += fmt.Sprintf(`,"value":%q`, base64.StdEncoding.EncodeToString([]byte(r.value)))
	}
	headers := r.headers
	if r.key != "" {
		headers = append([]kafka.Header{{Key: kafka.DefaultKeyHeader, Value: []byte(r.key)}}, headers...)
	}
	var hs []string
	for _, h := range headers {
		name, _ := json.Marshal(h.Key)
		var bs []string
		for _, b := range h.Value {
			bs = append(bs, strconv.Itoa(int(int8(b)))) // signed, as Lambda writes them
		}
		hs = append(hs, fmt.Sprintf(`{%s:[%s]}`, name, strings.Join(bs, ",")))
	}
	return out + `,"headers":[` + strings.Join(hs, ",") + `]}`
}

func batchOf(t testing.TB, records ...record) *msk.Event {
	t.Helper()
	return decode(t, payload(records...))
}

func decode(t testing.TB, payload []byte) *msk.Event {
	t.Helper()
	event, err := msk.Decode(payload)
	if err != nil {
		t.Fatal(err)
	}
	return event
}

// one decodes an event with a single record.
func one(t testing.TB, r record) *msk.Record {
	t.Helper()
	r.place = cmp.Or(r.place, "payments-0@7")
	return &decode(t, payload(r)).Partitions[0][0]
}

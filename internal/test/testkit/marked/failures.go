// Package marked makes records with marked keys and values fail in every way. Tests look for the marks in
// what programs write and show.
package marked

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
)

// The marks of keys and values: numbers that a double does not hold exactly.
const (
	Key   = "780511200733780511"
	Value = "492912345678492913"
)

// Failure is a way in which a record fails.
type Failure struct {
	Name        string
	records     []mskevent.Record
	key         kafka.KeyFunc         // default: by the header
	fingerprint kafka.FingerprintFunc // default: of the value
	handler     kafka.HandlerFunc     // default: succeeds
	fault       fault
}

// fault is what fails besides the record.
type fault uint8

const (
	none     fault = iota
	held           // another owner has the key
	down           // the store refuses claims
	lost           // the store refuses completions
	unsent         // no dead letter is sent
	noLetter       // there are no dead letters
)

var errBoom = errors.New("boom")

// Failures returns all ways to fail.
func Failures() []Failure {
	return append(append(ofKeys(), ofValues()...), ofHandlers()...)
}

// ofHandlers returns failures of the handler and of what is around it.
func ofHandlers() []Failure {
	fails := func(err error) kafka.HandlerFunc {
		return func(context.Context, kafka.Record) ([]byte, error) { return nil, err }
	}
	return []Failure{
		{Name: "the handler fails", records: one(Value), handler: fails(errBoom)},
		{Name: "the handler fails for ever", records: one(Value), handler: fails(idem.Permanent(errBoom))},
		{Name: "the handler panics", records: one(Value),
			handler: func(context.Context, kafka.Record) ([]byte, error) { panic("boom") }},
		{Name: "a dependency is down", records: one(Value), handler: fails(idem.Unavailable(errBoom))},
		{Name: "the result can't be encoded", records: one(Value),
			handler: func(context.Context, kafka.Record) ([]byte, error) {
				return kafka.EncodeResult(make(chan int))
			}},
		{Name: "in flight", records: one(Value), fault: held},
		{Name: "the store is down", records: one(Value), fault: down},
		{Name: "the completion is lost", records: one(Value), fault: lost},
		{Name: "the dead letter is not sent", records: one(Value), handler: fails(idem.Permanent(errBoom)),
			fault: unsent},
		{Name: "there are no dead letters", records: one(Value), handler: fails(idem.Permanent(errBoom)),
			fault: noLetter},
	}
}

// ofKeys returns failures of keys.
func ofKeys() []Failure {
	id, hash := must(kafka.JSONKey("$.id")), must(kafka.ValueHashJSONKey())
	reused := []mskevent.Record{message(1, Value, Key).Record(), message(2, Value+"1", Key).Record()}
	inValue := func(format string) []mskevent.Record { return unkeyed(fmt.Appendf(nil, format, Key, Value)) }
	return []Failure{
		{Name: "no key", records: unkeyed([]byte(Value))},
		{Name: "two keys", records: []mskevent.Record{message(1, Value, Key, Key+"b").Record()}},
		{Name: "another value", records: reused},
		{Name: "another value, and no dead letters", records: reused, fault: noLetter},
		{Name: "key with U+FFFD", records: inValue("{\"id\":\"%s\uFFFD\",\"x\":%s}"), key: id},
		{Name: "key is an object", records: inValue(`{"id":{"%s":%s}}`), key: id},
		{Name: "key in what is not JSON", records: inValue(`{"id":"%s","x":%sx}`), key: id},
		{Name: "key in two JSON values", records: inValue(`{"id":"%s"} %s`), key: id},
		{
			Name: "fingerprint with U+FFFD", records: inValue("{\"id\":\"%s\",\"name\":\"%s\uFFFD\"}"),
			key:         id,
			fingerprint: must(kafka.JSONFingerprint("$.id", "$.name")),
		},
		{Name: "hash of U+FFFD", records: inValue("[\"%s\",\"%s\uFFFD\"]"), key: hash},
		{Name: "hash of a number", records: inValue(`[%s,%s]`), key: hash},
		{Name: "hash of a large number", records: inValue(`[%se999,%se999]`), key: hash},
		{Name: "hash of two members of one name",
			records: inValue(`{"%[1]s":1,"%[2]s":2,"%[2]s":3,"%[1]s":4}`), key: hash},
		{Name: "hash of two members with the key", records: inValue(`{"%[1]s":1,"%[1]s":4,"x":%[2]s}`),
			key: hash},
	}
}

// ofValues returns failures of what is in a value.
func ofValues() []Failure {
	type numbers struct {
		Number int8           `json:"number"`
		Time   time.Time      `json:"time"`
		Text   int            `json:"text,string"`
		Map    map[int8]uint8 `json:"map"`
	}
	isJSON := msk.JSON(func(context.Context, numbers, msk.Record) (any, error) { return "", nil })
	undecodable := func(fields string) []mskevent.Record {
		return []mskevent.Record{{PartitionID: "payments-0", Offset: 1,
			JSON: fmt.Appendf(nil, `{"topic":"payments","partition":0,"offset":1,%s}`, fields)}}
	}
	header := must(json.Marshal([]any{map[string]any{kafka.DefaultKeyHeader: []string{Key}}}))
	return []Failure{
		{Name: "a number of another type", records: one(`{"number":` + Value + `}`), handler: isJSON},
		{Name: "a text of another type", records: one(`{"number":"` + Value + `"}`), handler: isJSON},
		{Name: "a text that is no time", records: one(`{"time":"` + Value + `"}`), handler: isJSON},
		{Name: "a text that is no number", records: one(`{"text":"` + Value + `x"}`), handler: isJSON},
		{Name: "a name that is no number", records: one(`{"map":{"` + Value + `":1}}`), handler: isJSON},
		{Name: "not JSON", records: one(Value + "x"), handler: isJSON},
		{Name: "value that is a number", records: undecodable(`"value":` + Value)},
		{Name: "value that is no base64", records: undecodable(`"value":"` + Value + `!"`)},
		{Name: "key that is a number", records: undecodable(`"key":` + Key)},
		{Name: "header that is a list of texts", records: undecodable(`"headers":` + string(header))},
		{Name: "header that is a text", records: undecodable(`"headers":[{"` + kafka.DefaultKeyHeader +
			`":"` + Key + `"}]`)},
		{Name: "header that is a number",
			records: undecodable(`"headers":[{"` + kafka.DefaultKeyHeader + `":[` + Key + `]}]`)},
		{Name: "value with a schema of another form", records: undecodable(
			`"valueSchemaMetadata":"x","value":"` + base64.StdEncoding.EncodeToString([]byte(Value)) + `"`)},
	}
}

// one returns a record with the marked key.
func one(value string) []mskevent.Record { return []mskevent.Record{message(1, value, Key).Record()} }

func unkeyed(value []byte) []mskevent.Record {
	return []mskevent.Record{message(1, string(value)).Record()}
}

// message returns a message with its keys in headers, and the first one also as its Kafka key.
func message(offset int64, value string, keys ...string) *mskevent.Message {
	m := &mskevent.Message{Topic: "payments", Offset: offset, Timestamp: 1767225600000, Value: []byte(value)}
	for _, key := range keys {
		m.Headers = append(m.Headers, mskevent.Header{Key: kafka.DefaultKeyHeader, Value: []byte(key)})
		m.Key = []byte(keys[0])
	}
	return m
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

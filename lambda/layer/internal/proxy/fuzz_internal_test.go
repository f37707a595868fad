package proxy

import (
	"fmt"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
)

// FuzzResults reads any answer of a function. A record that the second decoder, that of the event source, finds among the failed ones does
// not complete, an answer that it can't read fails all of them, and no pause exceeds its bound.
func FuzzResults(f *testing.F) {
	const id = `{"itemIdentifier":{"partition":"t-0","offset":%d}%s}`
	for _, more := range []string{
		``, `,"permanent":true,"error":"no"`, `,"retryAfterMs":3600000`, `,"retryAfterMs":-9223372036855`, `,"retryAfterMs":9223372036854775807`, `,"retryAfterMs":1e3`,
	} {
		f.Add([]byte(`{"batchItemFailures":[`+fmt.Sprintf(id, 1, more)+`]}`), true)
	}
	f.Add([]byte(`{"batchItemFailures":[`+fmt.Sprintf(id, 1, "")+`],"idemskResults":[`+fmt.Sprintf(id, 0, `,"result":{"a":1}`)+`]}`), false)
	f.Add([]byte(`{"batchItemFailures":[`+fmt.Sprintf(id, 1, "")+`],"batchItemFailures":[]}`), false)
	f.Add([]byte(`"ok"`), false)
	f.Add([]byte(``), true)
	f.Fuzz(func(t *testing.T, payload []byte, partial bool) {
		rs := []kafka.RecordAttempt{{Record: &kafka.Record{Topic: "t"}}, {Record: &kafka.Record{Topic: "t", Offset: 1}}}
		out := results(rs, answer{payload: payload}, partial)
		if len(out) != len(rs) {
			t.Fatalf("%d results of %d records", len(out), len(rs))
		}
		failed, _, err := mskevent.Failures(payload, func(p mskevent.Place) bool { return p.Partition == "t-0" && (p.Offset == 0 || p.Offset == 1) })
		for i, r := range out {
			if r.Err == nil && (failed[placeOf(rs[i].Record)] || err != nil && partial) {
				t.Errorf("%s completes %d; the event source reads %v, %v", payload, i, failed, err)
			}
			if after := idem.RetryDelay(r.Err); after < 0 || after > 24*time.Hour {
				t.Errorf("%s: a pause of %v", payload, after)
			}
		}
	})
}

// Only the list of failures can fail a record. All other fields are the function's own, or optional: what of them can't be read fails nothing.
func TestOtherFieldsOfAnAnswerFailNothing(t *testing.T) {
	const id = `{"partition":"t-0","offset":%d}`
	item := func(offset int, more string) string { return fmt.Sprintf(`{"itemIdentifier":`+id+`%s}`, offset, more) }
	rs := []kafka.RecordAttempt{{Record: &kafka.Record{Topic: "t"}}, {Record: &kafka.Record{Topic: "t", Offset: 1}}}
	for fields, want := range map[string]string{
		`"results":["booked"],"error":{"code":0},"retryAfterMs":"no"`: `"" ""`,
		`"results":3,"permanent":[]`:                                  `"" ""`,
		`"idemskResults":3`:                                           `"" ""`,
		`"idemskResults":[3,{},{"itemIdentifier":{"partition":"t-0"},"result":1},` + item(9, `,"result":1`) + `,` + item(1, `,"result":2`) + `]`: `"" "2"`,
	} {
		for _, partial := range []bool{false, true} {
			for _, list := range []string{``, `"batchItemFailures":[],`} {
				out := results(rs, answer{payload: []byte(`{` + list + fields + `}`)}, partial)
				if got := fmt.Sprintf("%q %q", out[0].Value, out[1].Value); got != want || out[0].Err != nil || out[1].Err != nil {
					t.Errorf("partial %t, %s%s: values %s, errors %v, %v; want %s", partial, list, fields, got, out[0].Err, out[1].Err, want)
				}
			}
		}
	}
}

// FuzzEvent finds every record of the strict decoder in the event of which the function gets its parts.
func FuzzEvent(f *testing.F) {
	f.Add([]byte(`{"eventSource":"aws:kafka","records":{"t-0":[{"topic":"t","partition":0,"offset":1,"timestamp":5,"timestampType":"CREATE_TIME","value":"YQ=="}]}}`))
	f.Add([]byte(`{"eventSource":"aws:kafka","records":{"t-00":[{"topic":"t","partition":0,"offset":1}],"t-0":[{"topic":"t","partition":0,"offset":1}]}}`))
	f.Add([]byte(`{"eventSource":"SelfManagedKafka","records":{"t-1":[{"topic":"t","partition":1,"offset":2,"headers":[{"h":[1,-2]}]},{"topic":"t","partition":1,"offset":"x"}]}}`))
	f.Add([]byte(`{"eventSource":"aws:kafka","records":{"t-0":[{"topic":"t","partition":0,"offset":1,"Offset":2}]}}`))
	f.Add([]byte(`{"eventSource":"aws:kafka","records":{"t-0":[{"topic":"t","partition":0,"offset":1,"offset":2}]}}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		strict, err := msk.Decode(payload)
		if err != nil {
			return
		}
		inv, err := newInvocation(nil, &event{payload: payload}, nil)
		if err != nil {
			return // the invocation fails, and its records are delivered again
		}
		n := 0
		for _, p := range strict.Partitions {
			for i := range p.Records {
				n++
				if r := &p.Records[i]; r.Undecodable == nil && inv.records[placeOf(r)] == nil {
					t.Fatalf("%s has %s, which the function would not get", payload, r.Source())
				}
			}
		}
		if n != len(inv.kafka.Records) {
			t.Fatalf("%s has %d records; the function would get %d", payload, n, len(inv.kafka.Records))
		}
	})
}

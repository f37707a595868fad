package redrive_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/redrive"
)

// onFailure returns AWS's on-failure record of some payments that has only their places: each of partitions
// is as "1:0-3".
func onFailure(size int, partitions ...string) []byte {
	var info []string
	for _, p := range partitions {
		number, offsets, _ := strings.Cut(p, ":")
		first, last, _ := strings.Cut(offsets, "-")
		info = append(info, fmt.Sprintf(`"payments-%s":{"firstRecordOffset":%q,"lastRecordOffset":%q,"firstRecordTimestamp":"2023-11-14T22:13:20.000Z"}`,
			number, first, last))
	}
	return fmt.Appendf(nil, `{"requestContext":{"functionArn":"arn:aws:lambda:eu-central-1:1:function:pay:live","condition":"RetryAttemptsExhausted","approximateInvokeCount":11},
		"responseContext":{"functionError":"Unhandled"},"timestamp":"2023-11-14T22:13:21.000Z",
		"KafkaBatchInfo":{"batchSize":%d,"eventSourceArn":"arn:cluster","recordsInfo":{%s}}}`, size, strings.Join(info, ","))
}

// withPayload returns the on-failure record of the payments at payments-0@7 and @8 with the event.
func withPayload() []byte {
	return []byte(`{"KafkaBatchInfo":{"batchSize":2},"payload":"{\"records\":{\"payments-0\":[{\"offset\":7,\"value\":\"e30=\"},{\"offset\":8,\"value\":\"e30=\"}]}}"}`)
}

// fillPayments produces n records to a partition of payments, with the keys k0, k1 and so on.
func fillPayments(t *testing.T, c *kfake.Cluster, partition int32, n int) {
	t.Helper()
	for i := range n {
		produce(t, c, &kgo.Record{
			Topic: "payments", Partition: partition, Timestamp: time.UnixMilli(1_700_000_000_000),
			Key: fmt.Appendf(nil, "k%d", i), Value: []byte("v"),
			Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("x")}},
		})
	}
}

// The records that AWS names are read from Kafka. The message leaves when all of them are sent.
func TestOnFailureRecordWithPlaces(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	fillPayments(t, c, 0, 3)
	fillPayments(t, c, 1, 4)
	k := dial(t, c)
	body := onFailure(4, "1:1-3", "0:2-2")
	for _, run := range []struct {
		refuse   map[int64]bool
		limit    int
		outcomes string
		done     int
	}{
		{map[int64]bool{2: true}, 0, "a#1 not redriven, a#2 redriven, a#3 not redriven, a#4 redriven, b redriven", 1},
		{nil, 3, "a#1 redriven, a#2 redriven, a#3 redriven", 0},
		{nil, 4, "a#1 redriven, a#2 redriven, a#3 redriven, a#4 redriven", 1},
		{nil, 0, "a#1 redriven, a#2 redriven, a#3 redriven, a#4 redriven, b redriven", 2},
	} {
		l := letter(99)
		l.Cluster = ""
		src := &listSource{bodies: [][]byte{body, encode(t, &l)}}
		results, _ := runAll(t, redrive.Options{Source: src, Ranges: k, Limit: run.limit,
			Destination: &listDestination{refuse: run.refuse}})
		if got := outcomes(results); got != run.outcomes || len(src.done) != run.done || !src.closed {
			t.Errorf("%s, taken out %v; want %s, and %d", got, src.done, run.outcomes, run.done)
		}
	}
	results, _ := runAll(t, redrive.Options{Source: &listSource{bodies: [][]byte{body}}, Ranges: k,
		DryRun: true, Show: true, Key: "k3"})
	if len(results) != 1 {
		t.Fatalf("by the Kafka key: %+v", results)
	}
	r := results[0]
	if r.Source != "payments-1@3" || r.Function != "pay" || r.Cluster != "arn:cluster" ||
		r.Cause != "RetryAttemptsExhausted: Unhandled, invocations: 11" {
		t.Errorf("%+v", r)
	}
	if l := r.Letter; string(l.Key) != "k3" || string(l.Value) != "v" || len(l.Headers) != 1 ||
		l.Timestamp != 1_700_000_000_000 || l.TimestampType != "CREATE_TIME" {
		t.Errorf("%+v", l)
	}
}

// The records arrive where they came from, with their headers and without a token.
func TestOnFailureRecordIsSentBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	fillPayments(t, c, 1, 2)
	k := dial(t, c)
	src := &listSource{bodies: [][]byte{onFailure(2, "1:0-1")}}
	results, _ := runAll(t, redrive.Options{Source: src, Ranges: k, Destination: k, Reader: k})
	if len(results) != 2 || results[1].Where != "payments-1@3" {
		t.Fatalf("%+v", results)
	}
	if r := consume(t, c, 1, 4)[3]; string(r.Key) != "k1" || string(r.Value) != "v" || len(r.Headers) != 1 {
		t.Errorf("%+v", r)
	}
}

// An event in the message needs no Kafka to read.
func TestOnFailureRecordWithPayload(t *testing.T) {
	t.Parallel()
	src := &listSource{bodies: [][]byte{withPayload()}}
	dst := &listDestination{}
	results, _ := runAll(t, redrive.Options{Source: src, Destination: dst})
	if got := outcomes(results); got != "a#1 redriven, a#2 redriven" || len(src.done) != 1 ||
		!slices.Equal(dst.sent, []int64{7, 8}) {
		t.Errorf("%s, sent %v, taken out %v", got, dst.sent, src.done)
	}
}

// What is not in Kafka any more is listed with the reason, and the message stays.
func TestOnFailureRecordsThatAreLost(t *testing.T) {
	t.Parallel()
	remove := func(before int64) func(t *testing.T, c *kfake.Cluster) {
		return func(t *testing.T, c *kfake.Cluster) {
			if err := c.DeleteRecords("payments", 1, before); err != nil {
				t.Fatal(err)
			}
		}
	}
	keep := func(*testing.T, *kfake.Cluster) {}
	replace := func(body []byte, from, to string) []byte { return bytes.Replace(body, []byte(from), []byte(to), 1) }
	for name, tc := range map[string]struct {
		body    []byte
		prepare func(t *testing.T, c *kfake.Cluster)
		alone   bool // without Kafka
		last    string
	}{
		"the first": {onFailure(3, "1:0-2"), remove(1), false,
			"2 of the 3 records that were given up are in Kafka: retention or compaction"},
		"all": {onFailure(2, "1:0-1"), remove(2), false,
			"payments-1@0 to @1: retention has removed the records: the partition begins at 2"},
		"recreated, shorter": {onFailure(2, "1:8-9"), keep, false,
			"the partition ends at 3: the topic was recreated"},
		"recreated": {replace(onFailure(2, "1:0-1"), "22:13:20", "22:13:19"), keep, false,
			"the record at 0 is another one: the topic was recreated"},
		"no partition": {onFailure(1, "7:0-0"), keep, false, "no such topic or partition"},
		"no topic": {replace(onFailure(1, "1:0-0"), "payments-1", "other-1"), keep, false,
			"no such topic or partition"},
		"only places": {onFailure(1, "1:0-0"), keep, true, "give --brokers to read them"},
	} {
		c := newCluster(t)
		fillPayments(t, c, 1, 3)
		tc.prepare(t, c)
		src := &listSource{bodies: [][]byte{tc.body}}
		o := redrive.Options{Source: src, Destination: &listDestination{}}
		if !tc.alone {
			o.Ranges = dial(t, c)
		}
		results, _ := runAll(t, o)
		last := results[len(results)-1]
		if last.Outcome != redrive.NotRedriven || !strings.Contains(last.Error, tc.last) ||
			len(src.done) > 0 || last.Function != "pay" {
			t.Errorf("%s: %+v, taken out %v; want %q", name, last, src.done, tc.last)
		}
	}
}

// A range whose last record was compacted away ends before the records behind it.
func TestOnFailureRecordOfACompactedTopic(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	if err := c.CreateTopic("accounts", 1, map[string]string{"cleanup.policy": "compact"}); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b", "b", "c"} {
		produce(t, c, &kgo.Record{Topic: "accounts", Key: []byte(key), Value: []byte("v")})
	}
	c.Compact()
	body := strings.NewReplacer("payments", "accounts", "2023-11-14T22:13:20.000Z", "").
		Replace(string(onFailure(2, "0:0-1")))
	src := &listSource{bodies: [][]byte{[]byte(body)}}
	dst := &listDestination{}
	results, _ := runAll(t, redrive.Options{Source: src, Destination: dst, Ranges: dial(t, c)})
	if got := outcomes(results); got != "a#1 redriven, a#2 not redriven" || !slices.Equal(dst.sent, []int64{0}) {
		t.Errorf("%+v, sent %v", results, dst.sent)
	}
}

// Markers of transactions are no records, and neither are offsets without one if none is missing.
func TestOnFailureRecordAmongTransactions(t *testing.T) {
	t.Parallel()
	c := newLetterCluster(t)
	for range 2 {
		transaction(t, c)
	}
	body := strings.NewReplacer("payments-1", deadLetters+"-0", "2023-11-14T22:13:20.000Z", "").
		Replace(string(onFailure(2, "1:0-3")))
	src := &listSource{bodies: [][]byte{[]byte(body)}}
	dst := &listDestination{}
	runAll(t, redrive.Options{Source: src, Destination: dst, Ranges: dial(t, c)})
	if !slices.Equal(dst.sent, []int64{0, 2}) || len(src.done) != 1 {
		t.Errorf("sent %v, taken out %v", dst.sent, src.done)
	}
}

// A value that the event source has converted by a schema is read from Kafka.
func TestConvertedValueIsReadFromKafka(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	fillPayments(t, c, 1, 1)
	k := dial(t, c)
	body := []byte(`{"KafkaBatchInfo":{},"payload":{"records":{"payments-1":[{"offset":0,"timestamp":1700000000000,"key":"e30=","value":"e30=","valueSchemaMetadata":{"dataFormat":"AVRO","schemaId":"1"}}]}}}`)
	for _, o := range []redrive.Options{{}, {Reader: k}} {
		o.Source, o.Destination = &listSource{bodies: [][]byte{body}}, k
		results, _ := runAll(t, o)
		if r := results[0]; (r.Outcome == redrive.Redriven) != (o.Reader != nil) ||
			o.Reader == nil && !strings.Contains(r.Error, "may have converted the value") {
			t.Errorf("%+v", r)
		}
	}
	if r := consume(t, c, 1, 2)[1]; string(r.Key) != "k0" || string(r.Value) != "v" {
		t.Errorf("%+v", r)
	}
}

// Interrupted in a message of several records, a run leaves the message, and the next run sends all of them.
func TestInterruptedOnFailureRecordStays(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	src := &listSource{bodies: [][]byte{withPayload()}}
	_, err := redrive.Run(ctx, redrive.Options{Source: src, Destination: &listDestination{}},
		func(redrive.Result) { cancel() })
	if !errors.Is(err, context.Canceled) || len(src.done) > 0 || !src.closed {
		t.Errorf("%v, taken out %v, closed %v", err, src.done, src.closed)
	}
}

// The page of a queue redrives all, on-failure records of AWS too; by its ID it redrives one letter.
func TestChosenWithOnFailureRecords(t *testing.T) {
	t.Parallel()
	l := letter(1)
	for ids, want := range map[string][]int64{"": {7, 8, 1}, l.ID(): {1}} {
		dst := &listDestination{}
		src := &listSource{bodies: [][]byte{withPayload(), encode(t, &l)}}
		o := redrive.Options{Destination: dst, Source: src}
		if _, err := redrive.Chosen(t.Context(), o, strings.Fields(ids)); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(dst.sent, want) {
			t.Errorf("%q: sent %v; want %v", ids, dst.sent, want)
		}
	}
}

package msk_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
)

func TestDeadLetterContainsTheWholeRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.ledger.fails("a", idem.Permanent(errBoom))
		r := recordAt("payments-3@9007199254740993", "a").with("\x00\xff").header("trace", "\x80")
		r.kafkaKey = "account-1"
		s.deliver(r)
		want := kafka.DeadLetter{
			Topic: "payments", Partition: 3, Offset: 9007199254740993, Timestamp: 1767225600000,
			TimestampType: "CREATE_TIME",
			Key:           []byte("account-1"), Value: []byte("\x00\xff"),
			Headers: []kafka.DeadHeader{{Key: "idempotency-key", Value: []byte("a")},
				{Key: "trace", Value: []byte("\x80")}},
			IdempotencyKey: "ledger#payments#a", Token: s.get(keyA).Token, Attempts: 1,
			Error:    store.Failure{Code: store.CodePermanent, Message: "boom", At: time.Now().UTC()},
			Function: "ledger",
		}
		if got := s.letters.sent[0]; !reflect.DeepEqual(got, want) {
			t.Errorf("the letter is %+v; want %+v", got, want)
		}
		equal(t, "source", want.Source(), "payments-3@9007199254740993")
	})
}

func TestDeadLetterOfAnUndecodableRecordContainsItsJSON(t *testing.T) {
	s := newFixture(t)
	s.deliver(record{place: "payments-0@7", raw: `"key":"azE=","value":17,"headers":[{"h":[104]}]`})
	letter := s.letters.sent[0]
	wantContains(t, string(letter.Undecoded), `"value":17`, `"offset":7`)
	equal(t, "value", letter.Value == nil, true)
	equal(t, "key", string(letter.Key), "k1")
	equal(t, "headers", len(letter.Headers), 0) // they are in the JSON
}

// The record's place does not identify the cluster.
func TestDeadLetterNamesTheCluster(t *testing.T) {
	for name, tc := range map[string]struct{ envelope, want string }{
		"MSK":          {`"eventSourceArn":"arn:aws:kafka:eu-central-1:1:cluster/a/1","bootstrapServers":"b-1:9098,b-2:9098"`, "arn:aws:kafka:eu-central-1:1:cluster/a/1"},
		"self-managed": {`"bootstrapServers":"b-1:9092,b-2:9092"`, "b-1:9092,b-2:9092"},
		"unknown":      {`"other":1`, ""},
	} {
		s := newFixture(t)
		event, err := msk.Decode([]byte(`{` + tc.envelope +
			`,"records":{"payments-0":[{"offset":7,"value":17}]}}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.processUnder(t.Context(), event); err != nil {
			t.Fatal(err)
		}
		equal(t, name, s.letters.sent[0].Cluster, tc.want)
	}
}

// Two failures of one record have different times, also if the letters have no token, because the store is down, and
// the same millisecond.
func TestEachFailureHasItsOwnTime(t *testing.T) {
	s := newFixture(t)
	s.engine.FailOpen = true
	s.store.down(errNetwork)
	s.ledger.fails("a", idem.Permanent(errBoom))
	for range 50 {
		s.deliver(recordAt("payments-0@7", "a"))
	}
	times := map[time.Time]bool{}
	for _, l := range s.letters.sent {
		equal(t, "token", l.Token, 0)
		times[l.Error.At] = true
	}
	equal(t, "times", len(times), 50)
}

// letter returns a letter with all fields set.
func letter() kafka.DeadLetter {
	return kafka.DeadLetter{
		Topic: "payments", Partition: 3, Offset: 17, Timestamp: 1767225600000, TimestampType: "CREATE_TIME",
		Key: []byte(strings.Repeat("k", 2000)), Value: []byte(strings.Repeat("v", 8000)),
		Undecoded: []byte(strings.Repeat("u", 3000)),
		Headers: []kafka.DeadHeader{{Key: "h", Value: []byte(strings.Repeat("h", 4000))},
			{Key: "null"}},
		IdempotencyKey: "ledger#payments#a", Token: 1767225600001, Attempts: 5,
		Error: store.Failure{Code: store.CodeExhausted, Message: "<boom>",
			At: time.UnixMilli(1767225600002).UTC()}, Function: "ledger", Cluster: "arn:aws:kafka:c",
	}
}

func TestDeadLetterRoundTrip(t *testing.T) {
	for name, change := range map[string]func(*kafka.DeadLetter){
		"all":          func(*kafka.DeadLetter) {},
		"tombstone":    func(l *kafka.DeadLetter) { l.Value = nil },
		"empty value":  func(l *kafka.DeadLetter) { l.Value = []byte{} },
		"empty header": func(l *kafka.DeadLetter) { l.Headers[0].Value = []byte{} },
		"bytes":        func(l *kafka.DeadLetter) { l.Key, l.Value = []byte("k\xff"), []byte("\xed\xa0\x80") },
		"a header's name": func(l *kafka.DeadLetter) {
			l.Headers = []kafka.DeadHeader{{Key: "a\xff", Value: []byte("b")}, {Key: "\xed\xa0\x80"}, {Key: ""}, {Key: `{"base64":"YQ=="}`}}
		},
		"quotes": func(l *kafka.DeadLetter) { l.Value = []byte("{\"a\":\"\\n<&>\x00\u2028\uFFFE\"}") },
		"little": func(l *kafka.DeadLetter) {
			*l = kafka.DeadLetter{Topic: "t",
				Error: store.Failure{Code: "error"}}
		},
		// SQS accepts neither; the escapes decode to the same text
		"not for XML": func(l *kafka.DeadLetter) {
			l.IdempotencyKey, l.Headers[0].Key = "a\uFFFEb",
				"\uFFFF\x01\u2028"
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := letter()
			change(&want)
			data, err := want.Encode(1 << 20)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range string(data) {
				if c < ' ' || c == '\uFFFE' || c == '\uFFFF' || c == '\uFFFD' {
					t.Errorf("%q is in the encoded letter", c)
				}
			}
			got, err := kafka.ParseDeadLetter(data)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("parsed: %+v; want %+v", got, want)
			}
		})
	}
}

// Other tools read letters, and people do: what is text is written as text.
func TestDeadLetterForm(t *testing.T) {
	l := letter()
	l.Key, l.Value, l.Undecoded, l.Headers = []byte("k"), nil, nil,
		[]kafka.DeadHeader{{Key: "h", Value: []byte("v")}, {Key: "b", Value: []byte("\x80")}, {Key: "n"}, {Key: "\x80"}}
	data, err := l.Encode(1000)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "JSON", string(data), `{"topic":"payments","partition":3,"offset":17,"timestamp":1767225600000,"timestampType":"CREATE_TIME",`+
		`"idempotencyKey":"ledger#payments#a","token":1767225600001,"attempts":5,`+
		`"error":{"code":"exhausted","message":"<boom>","at":"2026-01-01T00:00:00.002Z"},"function":"ledger","cluster":"arn:aws:kafka:c",`+
		`"key":{"text":"k"},"value":null,"headers":[{"key":"h","value":{"text":"v"}},{"key":"b","value":"gA=="},{"key":"n","value":null},{"key":{"base64":"gA=="},"value":null}]}`)
}

func TestLargeDeadLetterOmitsFields(t *testing.T) {
	for _, tc := range []struct {
		limit   int
		value   int // omitted bytes
		omitted []string
	}{
		{100_000, 0, nil},
		{15_000, 8000, nil},
		{8_000, 8000, []string{"headers"}},
		{4_000, 8000, []string{"headers", "undecoded"}},
		{1_000, 8000, []string{"headers", "undecoded", "key"}},
	} {
		whole := letter()
		data, err := whole.Encode(tc.limit)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > tc.limit {
			t.Errorf("%d bytes; the limit is %d", len(data), tc.limit)
		}
		got, err := kafka.ParseDeadLetter(data)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "value omitted", got.ValueOmitted, tc.value)
		equalSlices(t, "omitted", got.Omitted, tc.omitted...)
		equal(t, "value is there", got.Value != nil, tc.value == 0)
		if !reflect.DeepEqual(whole, letter()) {
			t.Error("the letter itself was changed")
		}
	}
	whole := letter()
	_, err := whole.Encode(100)
	wantErr(t, err, kafka.ErrDeadLetterTooLarge)
	wantContains(t, err.Error(), "payments-3@17", "the limit is 100")
}

// Before anything is left out, texts are written in base64, if they take fewer bytes then.
func TestLargeDeadLetterIsWrittenInFewerBytes(t *testing.T) {
	l := letter()
	l.Key, l.Headers, l.Undecoded = nil, []kafka.DeadHeader{{Key: "h", Value: []byte(strings.Repeat("\x01", 1000))}}, nil
	l.Value = []byte(strings.Repeat(`"`, 6000)) // 12,000 bytes as text, 8,000 in base64
	for limit, want := range map[int]string{20_000: `{"text":`, 10_000: `"value":"IiIi`} {
		data, err := l.Encode(limit)
		if err != nil {
			t.Fatal(err)
		}
		wantContains(t, string(data), want)
		if got, err := kafka.ParseDeadLetter(data); err != nil || !reflect.DeepEqual(got, l) {
			t.Errorf("parsed: %+v, %v; want %+v", got, err, l)
		}
	}
}

// Nothing is left out of the letter of a queue's message, unless the letter is in S3.
func TestDeadLetterOfAMessageIsWhole(t *testing.T) {
	l := letter()
	l.Cluster = "arn:aws-cn:sqs:cn-north-1:123456789012:payments"
	equal(t, "queue", l.Queue(), l.Cluster)
	_, err := l.Encode(15_000)
	wantErr(t, err, kafka.ErrDeadLetterTooLarge)
	wantContains(t, err.Error(), "payments-3@17", "deleted from its queue", "the limit is 15000")
	l.ValueObject = "s3://bucket/key"
	if data, err := l.Encode(1_000); err != nil || len(data) > 1_000 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	for _, cluster := range []string{"", "b-1:9092,b-2:9092", "arn:aws:kafka:eu-central-1:1:cluster/sqs/1", "arn:aws:sqs"} {
		l.Cluster = cluster
		equal(t, "the queue of "+cluster, l.Queue(), "")
	}
}

// Absent fields are not listed as omitted. An empty value is not omitted, because it would become a
// tombstone.
func TestLargeDeadLetterKeepsAnEmptyValue(t *testing.T) {
	l := letter()
	l.Value, l.Undecoded = []byte{}, nil
	data, err := l.Encode(1_000)
	if err != nil {
		t.Fatal(err)
	}
	got, err := kafka.ParseDeadLetter(data)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "value", got.Value != nil && len(got.Value) == 0, true)
	equal(t, "value omitted", got.ValueOmitted, 0)
	equalSlices(t, "omitted", got.Omitted, "headers", "key")
}

func TestParseDeadLetterRefusesOtherMessages(t *testing.T) {
	for _, text := range []string{"", "{", "[]", "{}", `{"topic":"t"}`, `{"error":{"code":"x"}}`,
		`{"topic":17}`, `{"topic":"t","error":{"code":"x"},"headers":[{"key":{}}]}`, `{"topic":"t","error":{"code":"x"},"headers":[{"key":{"base64":"%"}}]}`} {
		if l, err := kafka.ParseDeadLetter([]byte(text)); err == nil {
			t.Errorf("%q is taken for a dead letter: %+v", text, l)
		} else {
			wantContains(t, err.Error(), "not a dead letter of idemsk")
		}
	}
	data, err := json.Marshal(map[string]any{"topic": "t", "error": map[string]any{"code": "x"},
		"fromTheFuture": 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kafka.ParseDeadLetter(data); err != nil {
		t.Errorf("a letter with a field that is not known: %v", err)
	}
}

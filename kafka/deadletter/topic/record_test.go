package topic

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
)

// letter returns a letter of a decodable record with all other fields set.
func letter() kafka.DeadLetter {
	return kafka.DeadLetter{
		Topic: "payments", Partition: 3, Offset: 17, Timestamp: 1767225600000, TimestampType: "CREATE_TIME",
		Key: []byte("acc-1"), Value: []byte("\x00\xff"),
		Headers:        []kafka.DeadHeader{{Key: "idempotency-key", Value: []byte("a")}, {Key: "null"}},
		IdempotencyKey: "ledger#payments#a", Token: 1767225600001, Attempts: 5,
		Error: store.Failure{Code: store.CodeExhausted, Message: "<boom>",
			At: time.Unix(1767225600, 2_000_001).UTC()},
		Function: "ledger", Cluster: "arn:aws:kafka:c",
	}
}

// format writes the headers of a record, one a line.
func format(r *kgo.Record) string {
	var b strings.Builder
	for _, h := range r.Headers {
		b.WriteString(h.Key + ": " + string(h.Value) + "\n")
	}
	return b.String()
}

// Later versions and other tools read letters, so their form must not change.
func TestFormIsStable(t *testing.T) {
	whole := letter()
	const facts = `idemsk-dead-letter: 1
idemsk-source-topic: payments
idemsk-source-partition: 3
idemsk-source-offset: 17
idemsk-source-timestamp: 1767225600000
idemsk-source-timestamp-type: CREATE_TIME
idemsk-cluster: arn:aws:kafka:c
idemsk-function: ledger
idemsk-idempotency-key: ledger#payments#a
idemsk-token: 1767225600001
idemsk-attempts: 5
idemsk-error-code: exhausted
idemsk-error-message: <boom>
idemsk-error-time: 2026-01-01T00:00:00.002000001Z
`
	little := kafka.DeadLetter{Topic: "t", Error: store.Failure{Code: "error"}}
	raw := letter()
	raw.Undecoded, raw.Key, raw.Headers = []byte(`{"value":17}`), nil, nil
	reduced := letter()
	reduced.Value, reduced.ValueOmitted, reduced.Headers, reduced.Omitted = nil, 2, nil, []string{"headers",
		"key"}
	reduced.ValueObject = "s3://b/k"
	for name, tc := range map[string]struct {
		letter  kafka.DeadLetter
		headers string
		value   string
	}{
		"all": {whole, "idempotency-key: a\nnull: \n" + facts, "\x00\xff"},
		"little": {little, "idemsk-dead-letter: 1\nidemsk-source-topic: t\nidemsk-source-partition: 0\nidemsk-source-offset: 0\n" +
			"idemsk-error-code: error\n", ""},
		"undecodable": {raw, facts + "idemsk-undecoded: true\n", `{"value":17}`},
		"reduced": {reduced, facts +
			"idemsk-value-omitted: 2\nidemsk-value-object: s3://b/k\nidemsk-omitted: headers,key\n", ""},
	} {
		r := record(&tc.letter)
		if got := format(r); got != tc.headers || string(r.Value) != tc.value {
			t.Errorf("%s: value %q, headers:\n%s\nwant %q and\n%s", name, r.Value, got, tc.value, tc.headers)
		}
	}
}

// anyLetter generates letters as kafka.Processor makes them, and reduced ones.
func anyLetter() *rapid.Generator[kafka.DeadLetter] {
	bytes := rapid.OneOf(rapid.Just([]byte(nil)), rapid.SliceOfN(rapid.Byte(), 0, 8))
	return rapid.Custom(func(t *rapid.T) kafka.DeadLetter {
		l := letter()
		l.Topic = rapid.StringN(1, 9, -1).Draw(t, "topic")
		l.Partition, l.Offset = rapid.Int32Min(0).Draw(t, "partition"), rapid.Int64Min(0).Draw(t, "offset")
		l.Timestamp, l.Token = rapid.Int64().Draw(t, "timestamp"), rapid.Int64Min(0).Draw(t, "token")
		l.Key, l.Value, l.Attempts = bytes.Draw(t, "key"), bytes.Draw(t, "value"), rapid.IntMin(0).Draw(t,
			"attempts")
		l.Cluster, l.Function, l.IdempotencyKey = rapid.String().Draw(t,
			"cluster"), rapid.SampledFrom([]string{"", "0", "ledger"}).Draw(t, "function"),
			rapid.String().Draw(t, "key as stored")
		l.Error.Code, l.Error.Message = rapid.StringN(1, 9, -1).Draw(t, "code"), rapid.String().Draw(t,
			"message")
		l.Headers = nil
		names := rapid.OneOf(rapid.SampledFrom(
			[]string{marker, "idemsk-token", undecodedHeader, kafka.RedriveHeader}), rapid.String())
		for range rapid.IntRange(0, 3).Draw(t, "headers") {
			l.Headers = append(l.Headers,
				kafka.DeadHeader{Key: names.Draw(t, "name"), Value: bytes.Draw(t, "header")})
		}
		if rapid.Bool().Draw(t, "undecoded") {
			l.Value, l.Undecoded = nil, rapid.SliceOfN(rapid.Byte(), 1, 8).Draw(t, "raw")
		}
		for range rapid.IntRange(0, 4).Draw(t, "reduced") {
			l, _ = l.Reduce()
		}
		return l
	})
}

// What was sent is read, whatever headers the record had before.
func TestLetterRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyLetter().Draw(t, "letter")
		got, err := Parse(record(&want))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("read %+v\nwant %+v", got, want)
		}
	})
}

// A letter whose record is itself a dead letter contains it whole.
func TestLetterOfADeadLetter(t *testing.T) {
	inner := letter()
	first := record(&inner)
	outer := letter()
	outer.Topic, outer.Token, outer.Headers = "letters", 99, nil
	for _, h := range first.Headers {
		outer.Headers = append(outer.Headers, kafka.DeadHeader(h))
	}
	got, err := Parse(record(&outer))
	if err != nil || !reflect.DeepEqual(got, outer) {
		t.Fatalf("%+v, %v", got, err)
	}
	back := &kgo.Record{Key: got.Key, Value: got.Value}
	for _, h := range got.Headers {
		back.Headers = append(back.Headers, kgo.RecordHeader(h))
	}
	if got, err = Parse(back); err != nil || !reflect.DeepEqual(got, inner) {
		t.Errorf("the inner letter is %+v, %v", got, err)
	}
}

func TestParseRefusesOtherRecords(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(r *kgo.Record)
		says   string
	}{
		"no headers": {func(r *kgo.Record) { r.Headers = nil }, "no header idemsk-dead-letter"},
		"a later form": {func(r *kgo.Record) { set(r, marker, "2") },
			`"2": this version reads 1 only`},
		"no topic": {func(r *kgo.Record) { set(r, "idemsk-source-topic", "") }, "names no topic"},
		"no error": {func(r *kgo.Record) { set(r, "idemsk-error-code", "") }, "or no error"},
		"a large partition": {func(r *kgo.Record) { set(r, "idemsk-source-partition", "2147483648") },
			"idemsk-source-partition"},
		"a negative offset": {func(r *kgo.Record) { set(r, "idemsk-source-offset", "-2") }, "negative"},
		"a token that is text": {func(r *kgo.Record) { set(r, "idemsk-token", "many") },
			`idemsk-token is "many"`},
		"no time": {func(r *kgo.Record) { set(r, "idemsk-error-time", "now") },
			"idemsk-error-time"},
		"a year too late": {func(r *kgo.Record) {
			set(r, "idemsk-error-time",
				"9999-12-31T23:59:59-23:59")
		}, "10000"},
		"undecoded, no value": {func(r *kgo.Record) { add(r, undecodedHeader, "true"); r.Value = nil },
			undecodedHeader},
		"a header twice": {func(r *kgo.Record) { add(r, "idemsk-token", "1") }, "twice"},
	} {
		l := letter()
		r := record(&l)
		tc.change(r)
		_, err := Parse(r)
		if err == nil || !strings.Contains(err.Error(), tc.says) ||
			!strings.Contains(err.Error(), "not a dead letter of idemsk") {
			t.Errorf("%s: %v; want %q", name, err, tc.says)
		}
	}
}

// Replication tools and later versions of idemsk add headers.
func TestParseIgnoresUnknownHeaders(t *testing.T) {
	l := letter()
	r := record(&l)
	add(r, "x-mirrored-by", "m")
	if got, err := Parse(r); err != nil || !reflect.DeepEqual(got, l) {
		t.Errorf("%+v, %v", got, err)
	}
}

func set(r *kgo.Record, name, value string) {
	for i := range r.Headers {
		if r.Headers[i].Key == name {
			r.Headers[i].Value = []byte(value)
		}
	}
}

func add(r *kgo.Record, name, value string) {
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
}

// A producer that may write to the topic can write any record. What is read as a letter is written and read
// the same again.
func FuzzParse(f *testing.F) {
	l := letter()
	f.Add([]byte("k"), []byte("v"), format(record(&l)))
	f.Add([]byte(nil), []byte("v"), marker+
		": 1\nidemsk-source-topic: t\nidemsk-error-code: c\nidemsk-undecoded: true\nidemsk-omitted: ,,")
	f.Add([]byte("k"), []byte("v"), marker+
		": 1\nidemsk-source-topic: t\nidemsk-error-code: c\nidemsk-omitted: ")
	f.Fuzz(func(t *testing.T, key, value []byte, headers string) {
		r := &kgo.Record{Key: key, Value: value}
		for line := range strings.Lines(headers) {
			name, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			add(r, name, text)
		}
		first, err := Parse(r)
		if err != nil {
			return
		}
		second, err := Parse(record(&first))
		if err != nil || !reflect.DeepEqual(first, second) {
			t.Errorf("read again: %+v, %v; want %+v", second, err, first)
		}
	})
}

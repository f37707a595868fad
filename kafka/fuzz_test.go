package kafka_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
)

// FuzzJSONKey compares a key with what a decoder that goes one step at a time finds at $['name'][0] and at
// $['name'].
func FuzzJSONKey(f *testing.F) {
	for _, value := range []string{`{"id":"p-1"}`, `{"id":["p-1"]}`, `{"id":17.50}`, `{"id":null}`,
		`{"id":""}`, `{"id":true}`, `{"id":{"a":1}}`, `{"id":"a"} x`, `{"id":1,"id":2}`, `[]`, ``} {
		f.Add("id", []byte(value))
	}
	f.Add("id", []byte("{\"id\":\"\xff\"}"))
	f.Add("id", []byte(`{"id":"\ud800"}`))
	f.Fuzz(func(t *testing.T, name string, value []byte) {
		for suffix, within := range map[string]bool{"": false, "[0]": true} {
			keyOf, err := kafka.JSONKey("$['" + name + "']" + suffix)
			if err != nil || strings.Contains(name, "']") {
				return // not one name
			}
			key, err := keyOf(t.Context(), &kafka.Record{Value: value})
			switch want, ok := elementAt(value, name, within); {
			case ok && (err != nil || key != want):
				t.Fatalf("%q%s of %q: %q, %v; want %q", name, suffix, value, key, err, want)
			case !ok && err == nil:
				t.Fatalf("%q%s of %q: %q; want an error", name, suffix, value, key)
			}
		}
	})
}

// elementAt returns the text of a scalar in a document. It is not ok if there is none that identifies a
// request.
func elementAt(value []byte, name string, within bool) (text string, ok bool) {
	var doc map[string]json.RawMessage
	if json.Unmarshal(value, &doc) != nil {
		return "", false
	}
	element := doc[name]
	if within {
		var list []json.RawMessage
		if json.Unmarshal(element, &list) != nil || len(list) == 0 {
			return "", false
		}
		element = list[0]
	}
	element = bytes.TrimSpace(element)
	switch {
	case len(element) == 0 || string(element) == "null" || element[0] == '{' || element[0] == '[':
		return "", false
	case element[0] != '"':
		return string(element), true
	}
	err := json.Unmarshal(element, &text)
	return text, err == nil && text != "" && !strings.ContainsRune(text, utf8.RuneError)
}

// FuzzDeadLetter sends a letter of any record through an encoding of bounded size. What it then lacks, it
// says.
func FuzzDeadLetter(f *testing.F) {
	f.Add("payments", []byte("k"), []byte("v"), "h", []byte("x"), []byte(nil), "key", "message", int64(7),
		1000)
	f.Add("t", []byte{}, []byte{}, "", []byte{}, []byte("{}"), "\uFFFE\uFFFF", "\x00\u2028", int64(0), 600)
	f.Add("t", bytes.Repeat([]byte{0}, 400), bytes.Repeat([]byte{1}, 400), "h", []byte(nil), []byte(nil), "",
		"", int64(-1), 700)
	f.Fuzz(func(t *testing.T, topic string, key, value []byte, name string, header, undecoded []byte, idKey,
		message string, ms int64, limit int) {
		topic, name, idKey, message = strings.ToValidUTF8(topic, ""), strings.ToValidUTF8(name,
			""), strings.ToValidUTF8(idKey, ""), strings.ToValidUTF8(message, "")
		l := kafka.DeadLetter{
			Topic: topic + "t", Partition: 3, Offset: 17, Timestamp: ms, Key: key, Value: value,
			Undecoded: undecoded,
			Headers:   []kafka.DeadHeader{{Key: name, Value: header}}, IdempotencyKey: idKey, Token: ms,
			Attempts: 5,
			Error:    store.Failure{Code: store.CodeError, Message: message, At: time.Unix(1, 2).UTC()},
		}
		out, err := l.Encode(limit)
		if errors.Is(err, kafka.ErrDeadLetterTooLarge) {
			return
		}
		if err != nil || len(out) > limit || !utf8.Valid(out) || bytes.ContainsAny(out, "\uFFFE\uFFFF") {
			t.Fatalf("%d bytes; the limit is %d: %v\n%s", len(out), limit, err, out)
		}
		got, err := kafka.ParseDeadLetter(out)
		if err != nil || got.ID() != l.ID() {
			t.Fatalf("%v: %s has the ID %s; want %s", err, out, got.ID(), l.ID())
		}
		if got.ValueOmitted > 0 {
			if got.ValueOmitted != len(value) {
				t.Fatalf("%d bytes omitted of %d", got.ValueOmitted, len(value))
			}
			got.Value, got.ValueOmitted = l.Value, 0
		}
		for _, part := range got.Omitted {
			switch part {
			case "headers":
				got.Headers = l.Headers
			case "undecoded":
				got.Undecoded = l.Undecoded
			case "key":
				got.Key = l.Key
			}
		}
		got.Omitted = nil
		wantSame(t, got, l)
	})
}

// FuzzParseDeadLetter reads any message of a queue. What is read as a letter is written and read the same
// again.
func FuzzParseDeadLetter(f *testing.F) {
	f.Add([]byte(`{"topic":"t","partition":1,"offset":2,"key":null,"value":"dg==","idempotencyKey":"n#t#k","token":3,"attempts":5,"error":{"code":"error","message":"m","at":"2026-01-02T03:04:05Z"}}`))
	f.Add([]byte(`{"topic":"t","error":{"code":"c"},"headers":[{"key":"h","value":null}],"omitted":["key"],"valueOmitted":9,"valueObject":"s3://b/k","undecoded":""}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := kafka.ParseDeadLetter(data)
		if err != nil {
			return
		}
		out, err := first.Encode(1 << 30)
		if err != nil {
			t.Fatal(err)
		}
		second, err := kafka.ParseDeadLetter(out)
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		wantSame(t, second, first)
	})
}

// wantSame compares letters, and a null from an empty value, which are a tombstone and a record.
func wantSame(t *testing.T, got, want kafka.DeadLetter) {
	t.Helper()
	a, errA := json.Marshal(got)
	b, errB := json.Marshal(want)
	if err := errors.Join(errA, errB); err != nil || !bytes.Equal(a, b) {
		t.Fatalf("%v: got\n%s\nwant\n%s", err, a, b)
	}
}

// FuzzStoredKey checks that two records share an entry only if namespace, topic and key are the same.
func FuzzStoredKey(f *testing.F) {
	f.Add("ledger", "payments", "42", "ledger", "refunds", "42")
	f.Add("a", "b", "c#d", "a", "b#c", "d")
	f.Add("a", "", "\xff", "a", "", "\xfe")
	f.Add("a", "b", "sha256:00", "sha256:", "b", strings.Repeat("k", store.MaxKeyBytes))
	f.Fuzz(func(t *testing.T, namespace, topic, key, namespace2, topic2, key2 string) {
		if strings.Contains(namespace+topic+namespace2+topic2, "#") {
			return // neither a namespace nor a topic contains one
		}
		one, two := kafka.StoredKey(namespace, topic, key), kafka.StoredKey(namespace2, topic2, key2)
		if !kafka.IsStoredKey(one, key) || kafka.IsStoredKey(one, key2) != (key == key2) {
			t.Errorf("%q is the stored key of %q: %t; of %q: %t", one, key, kafka.IsStoredKey(one, key), key2,
				kafka.IsStoredKey(one, key2))
		}
		a, errA := store.Key(one, false)
		b, errB := store.Key(two, false)
		same := slices.Equal([]string{namespace, topic, key}, []string{namespace2, topic2, key2})
		if errA != nil || errB != nil || (a == b) != same || len(a) > store.MaxKeyBytes ||
			!utf8.ValidString(a) {
			t.Errorf("%q, %v and %q, %v; equal requests: %t", a, errA, b, errB, same)
		}
	})
}

// FuzzValueHashJSONKey hashes any value and the same value as encoding/json writes it.
func FuzzValueHashJSONKey(f *testing.F) {
	for _, value := range []string{`{"b":[1.50,2e-7],"a":"\u00e9\ud83d\ude00"}`, `{"a":1,"a":2}`,
		`9007199254740993`, `-0.0`, `"\ud800"`, `[`, ``, `1e-7`, "{\"\x7f\":null}"} {
		f.Add([]byte(value))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		keyOf, err := kafka.ValueHashJSONKey()
		if err != nil {
			t.Fatal(err)
		}
		key, err := keyOf(t.Context(), &kafka.Record{Value: value})
		if err != nil {
			return
		}
		dec := json.NewDecoder(bytes.NewReader(value))
		dec.UseNumber()
		var doc any
		if err := dec.Decode(&doc); err != nil {
			t.Fatalf("%q has the key %s, and is not JSON: %v", value, key, err)
		}
		again, err := json.MarshalIndent(doc, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if other, err := keyOf(t.Context(), &kafka.Record{Value: again}); err != nil || other != key {
			t.Fatalf("%q has the key %s; %q has %s, %v", value, key, again, other, err)
		}
	})
}

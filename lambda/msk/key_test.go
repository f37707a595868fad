package msk_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/eventsource"
	"github.com/idemsk/idemsk/lambda/msk"
)

func jsonKey(t testing.TB, paths ...string) kafka.KeyFunc {
	t.Helper()
	key, err := kafka.JSONKey(paths...)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func hashKey(t testing.TB, paths ...string) kafka.KeyFunc {
	t.Helper()
	key, err := kafka.ValueHashJSONKey(paths...)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestKeys(t *testing.T) {
	header := kafka.HeaderKey("id")
	for name, tc := range map[string]struct {
		key   kafka.KeyFunc
		r     record
		want  string
		says  string // of an error
		noKey bool   // the error is ErrNoKey
	}{
		"header": {key: header, r: record{}.header("other", "x").header("id", "k"),
			want: "k"},
		"header, binary": {key: header, r: record{}.header("id", "\x00\xff\x80"),
			want: "\x00\xff\x80"},
		"header, twice the same": {key: header, r: record{}.header("id", "k").header("id", "k"),
			want: "k"},
		"header, twice different": {key: header, r: record{}.header("id", "k").header("id", "l"),
			says: `header "id" is there more than once`},
		"header, empty and not": {key: header, r: record{}.header("id", "").header("id", "l"),
			says: "more than once"},
		"header, empty": {key: header, r: record{}.header("id", ""),
			says: `in the header "id", which is empty`, noKey: true},
		"header, of the case empty": {key: header, r: record{}.header("id", "").header("ID", "k"),
			says: `in the header "id", which is empty`, noKey: true},
		"header, null": {key: header, r: record{raw: `"headers":[{"id":null}]`},
			says: `in the header "id"`, noKey: true},
		"header, of another case": {key: header, r: record{}.header("Id", "k").header("Id", "k"),
			want: "k"},
		"header, of the exact case": {key: header,
			r: record{}.header("Id", "k").header("ID", "k").header("id", "l"), want: "l"},
		"header, of two cases": {key: header, r: record{}.header("ID", "k").header("Id", "k"),
			says: `the headers "ID" and "Id" differ only in upper and lower case`},
		"header, another case, two": {key: header, r: record{}.header("Id", "k").header("Id", "l"),
			says: `header "Id" is there more than once`},
		"header, none": {key: header, r: record{}, says: `in the header "id"`, noKey: true},
		"Kafka key":    {key: kafka.RecordKey, r: record{kafkaKey: "k"}, want: "k"},
		"Kafka key, null": {key: kafka.RecordKey, r: record{}, says: "Kafka key is empty",
			noKey: true},
		"Kafka key, empty": {key: kafka.RecordKey, r: record{raw: `"key":""`},
			says: "Kafka key is empty", noKey: true},
		"hash": {key: kafka.ValueHashKey, r: record{value: "v"},
			want: "4c94485e0c21ae6c41ce1dfe7b6bfaceea5ab68e40a2476f50208e526f506080"},
		"hash, empty value": {key: kafka.ValueHashKey, r: record{},
			want: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		"hash, tombstone": {key: kafka.ValueHashKey, r: record{null: true}, says: "tombstone",
			noKey: true},
		"hash of JSON": {key: hashKey(t), r: record{value: ` { "b":1.0, "a":"x" } `},
			want: "cdab067e9f3beb32d1252cfd63e492592fecbf591b0d08cadb24bb17f3864246"},
		"hash of parts": {key: hashKey(t, "$.a", "$.b"),
			r:    record{value: `{"a":{"z":1,"y":2},"b":3,"c":4}`},
			want: "0211a5a0c9b3b49bb58474c3d25ca6371f83cc28fb89a325a747e32beffee9b1"},
		"hash of JSON, not JSON": {key: hashKey(t), r: record{value: "{"},
			says: "the value (1 bytes) is not JSON"},
		"hash of parts, missing": {key: hashKey(t, "$.a"), r: record{value: `{}`},
			says: "the value has no $.a", noKey: true},
		"offset": {key: kafka.OffsetKey, r: record{place: "a-b-12@9223372036854775807"},
			want: "a-b-12@9223372036854775807@1767225600000"},
		"JSON, string": {key: jsonKey(t, "$.id"), r: record{value: `{"id":"k"}`}, want: "k"},
		"JSON, number": {key: jsonKey(t, "$.id"),
			r: record{value: `{"id":12345678901234567890.10}`}, want: "12345678901234567890.10"},
		"JSON, boolean": {key: jsonKey(t, "$.id"), r: record{value: `{"id":false}`},
			want: "false"},
		"JSON, nested": {key: jsonKey(t, "$.a['b.c'][1].d"),
			r: record{value: `{"a":{"b.c":[0,{"d":"k"}]}}`}, want: "k"},
		"JSON, missing": {key: jsonKey(t, "$.id"), r: record{value: `{}`},
			says: "the value has no $.id", noKey: true},
		"JSON, null": {key: jsonKey(t, "$.id"), r: record{value: `{"id":null}`},
			says: "the value has no $.id", noKey: true},
		"JSON, empty": {key: jsonKey(t, "$.id"), r: record{value: `{"id":""}`},
			says: "$.id is empty", noKey: true},
		"JSON, object": {key: jsonKey(t, "$.id"), r: record{value: `{"id":{}}`},
			says: "$.id is an object or an array"},
		"JSON, tombstone": {key: jsonKey(t, "$.id"), r: record{null: true}, says: "tombstone",
			noKey: true},
		"JSON, not JSON": {key: jsonKey(t, "$.id"), r: record{value: `{"id":`},
			says: "the value (6 bytes) is not JSON"},
		"JSON, more than JSON": {key: jsonKey(t, "$.id"), r: record{value: `{"id":"k"} {}`},
			says: "after top-level value"},
		"JSON, empty value": {key: jsonKey(t, "$.id"), r: record{}, says: "is not JSON"},
		"JSON, not UTF-8": {key: jsonKey(t, "$.id"), r: record{value: "{\"id\":\"a\xff\"}"},
			says: "contains U+FFFD"},
		"JSON, half a character": {key: jsonKey(t, "$.id"), r: record{value: `{"id":"a\ud800"}`},
			says: "contains U+FFFD"},
		"composite, not UTF-8": {key: jsonKey(t, "$.a", "$.b"),
			r: record{value: "{\"a\":\"\xff\",\"b\":1}"}, says: "contains U+FFFD"},
		"composite": {key: jsonKey(t, "$.a", "$.b"), r: record{value: `{"a":"x","b":1.0}`},
			want: `["x",1.0]`},
		"composite, with separator": {key: jsonKey(t, "$.a", "$.b"),
			r: record{value: `{"a":"x\",\"y","b":""}`}, want: `["x\",\"y",""]`},
		"composite, object": {key: jsonKey(t, "$.a", "$.b"),
			r: record{value: `{"b":[1],"a":{"z":1,"y":2}}`}, want: `[{"y":2,"z":1},[1]]`},
		"composite, one missing": {key: jsonKey(t, "$.a", "$.b"), r: record{value: `{"a":"x"}`},
			says: "the value has no $.b", noKey: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.key(t.Context(), one(t, tc.r))
			if tc.says != "" {
				if err == nil {
					t.Fatalf("the key is %q; want an error", got)
				}
				wantContains(t, err.Error(), tc.says)
				equal(t, "it is ErrNoKey", errors.Is(err, kafka.ErrNoKey), tc.noKey)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "key", got, tc.want)
		})
	}
}

// A producer that writes the name of the header in another way is told which name it wrote.
func TestMissingKeyNamesASimilarHeader(t *testing.T) {
	for name, tc := range map[string]struct{ headers, similar string }{
		"idempotency-key": {"trace Idempotency_Key x-idempotency-key", "Idempotency_Key"},
		"Idempotency_Key": {"x-idempotency-key key trace", "x-idempotency-key"},
		"payment-id":      {"trace paymnt-id", "paymnt-id"},
		"paymentId":       {"id payment", "payment"},
		"id":              {"payment-id idle", ""},
		"request-key":     {"trace source " + strings.Repeat("request-key", 10), ""},
	} {
		r := &kafka.Record{}
		for header := range strings.FieldsSeq(tc.headers) {
			r.Headers = append(r.Headers, kafka.Header{Key: header, Value: []byte("secret")})
		}
		_, err := kafka.HeaderKey(name)(t.Context(), r)
		want := fmt.Sprintf("%v in the header %q", kafka.ErrNoKey, name)
		if tc.similar != "" {
			want += fmt.Sprintf(": is it in %q? IDEMSK_KEY=header:NAME sets the name", tc.similar)
		}
		if !errors.Is(err, kafka.ErrNoKey) || err.Error() != want {
			t.Errorf("%s: %v; want %s", name, err, want)
		}
	}
}

func TestFingerprints(t *testing.T) {
	part := func(paths ...string) kafka.FingerprintFunc {
		f, err := kafka.JSONFingerprint(paths...)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	tombstone := record{null: true}
	for name, tc := range map[string]struct {
		f    kafka.FingerprintFunc
		a, b record
		same bool
	}{
		"the same value": {kafka.ValueFingerprint, record{value: "v"},
			record{value: "v"}.header("h", "x"), true},
		"another value":         {kafka.ValueFingerprint, record{value: "v"}, record{value: "w"}, false},
		"an empty one and null": {kafka.ValueFingerprint, record{}, tombstone, false},
		"none":                  {kafka.NoFingerprint, record{value: "v"}, record{value: "w"}, true},
		"parts, others differ": {part("$.a"), record{value: `{"a":1,"b":2}`},
			record{value: `{"b":3,"a":1}`}, true},
		"parts differ": {part("$.a", "$.b"), record{value: `{"a":1,"b":2}`},
			record{value: `{"a":1,"b":3}`}, false},
		"parts, missing and null": {part("$.a", "$.b"), record{value: `{"a":1}`},
			record{value: `{"a":1,"b":null}`}, true},
		"parts, missing and not": {part("$.a", "$.b"), record{value: `{"a":1}`},
			record{value: `{"a":1,"b":0}`}, false},
		"parts, all missing, null": {part("$.a"), record{value: `{}`}, tombstone, false},
		"parts, two tombstones":    {part("$.a"), tombstone, tombstone, true},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := tc.f(t.Context(), one(t, tc.a))
			b, err2 := tc.f(t.Context(), one(t, tc.b))
			if err = errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			equal(t, "they match", a.Matches(b), tc.same)
		})
	}
	if f, err := part("$.a")(t.Context(), one(t, tombstone)); err != nil || f != store.FingerprintOf(nil) {
		t.Errorf("the fingerprint of a tombstone is %v, %v; want that of no value at all", f, err)
	}
	for _, value := range []string{"{\"a\":\"\xff\"}", `{"a":["\ud800"]}`, `{"a":{"\ufffd":1}}`} {
		if f, err := part("$.a")(t.Context(), one(t, record{value: value})); err == nil ||
			!strings.Contains(err.Error(), "not UTF-8") {
			t.Errorf("the fingerprint of %q is %v, error %v; want one that says that it is not UTF-8", value,
				f, err)
		}
	}
	if _, err := part("$.a")(t.Context(), one(t, record{value: "{"})); err == nil ||
		errors.Is(err, kafka.ErrNoKey) {
		t.Errorf("the fingerprint of what is not JSON: error %v", err)
	}
}

func TestRecordWithoutAFingerprintIsDeadLettered(t *testing.T) {
	s := newFixture(t)
	var err error
	if s.cfg.Records.Fingerprint, err = kafka.JSONFingerprint("$.a"); err != nil {
		t.Fatal(err)
	}
	equalSlices(t, "reported places", s.deliver(recordAt("payments-0@7", "a").with("{"),
		recordAt("payments-0@8", "b").with(`{"a":1}`)))
	wantContains(t, s.letters.sent[0].Error.Message, "the fingerprint can't be computed", "not JSON")
	equal(t, "executed", s.last().Executed, 1)
}

// A record whose key or fingerprint can't be found now is delivered again, as often as it takes, and gets no
// dead letter.
func TestRecordThatCanNotBeIdentifiedNowIsRetried(t *testing.T) {
	down := idem.Unavailable(errors.New("the registry is down"))
	for name, wrong := range map[string]func(s *fixture, err *error){
		"key": func(s *fixture, err *error) {
			s.cfg.Records.Key = func(_ context.Context, r *msk.Record) (string, error) {
				return keyOf(r),
					*err
			}
		},
		"fingerprint": func(s *fixture, err *error) {
			s.cfg.Records.Fingerprint = func(_ context.Context, r *msk.Record) (store.Fingerprint, error) {
				return store.FingerprintOf(r.Value), *err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t)
			s.engine.MaxAttempts = 2
			err := down
			wrong(s, &err)
			for range 4 {
				equalSlices(t, "reported places",
					s.deliver(recordAt("payments-0@7", "a"), recordAt("payments-0@8", "b")), "payments-0@7",
					"payments-0@8")
			}
			err = nil
			equalSlices(t, "reported places",
				s.deliver(recordAt("payments-0@7", "a"), recordAt("payments-0@8", "b")))
			equal(t, "effects", s.ledger.effects["a"]+s.ledger.effects["b"], 2)
			equalSlices(t, "dead letters", s.letters.sources())
			equal(t, "state of the key", s.keys()["ledger#payments#a"], store.StatusCompleted)
		})
	}
}

// A record without a key is claimed under its place in Kafka: redeliveries are recognised, attempts are
// counted, and a record that always fails is dead-lettered instead of blocking its partition.
func TestRecordWithoutKeyCanBeProcessed(t *testing.T) {
	for name, key := range map[string]kafka.KeyFunc{
		"no header":  nil,
		"empty text": func(context.Context, *msk.Record) (string, error) { return "", nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t)
			s.engine.MaxAttempts = 3
			s.cfg.Records.Key, s.cfg.Records.MissingKey = key, kafka.Process
			var attempts []int
			s.ledger.on["payments-0@7"] = func(ctx context.Context, _ msk.Record) error {
				a, _ := idem.AttemptFrom(ctx)
				attempts = append(attempts, a.Number)
				return errBoom
			}
			for range s.engine.MaxAttempts - 1 {
				equalSlices(t, "reported places",
					s.deliver(recordAt("payments-0@7", ""), recordAt("payments-0@8", "")), "payments-0@7",
					"payments-0@8")
			}
			for range 3 {
				equalSlices(t, "reported places",
					s.deliver(recordAt("payments-0@7", ""), recordAt("payments-0@8", "")))
			}
			equalSlices(t, "attempts", attempts, 1, 2, 3)
			equalSlices(t, "dead letters", s.letters.sources(), "payments-0@7")
			equal(t, "effects of the one behind", s.ledger.effects["payments-0@8"], 1)
			equal(t, "the letter's key", s.letters.sent[0].IdempotencyKey,
				"ledger@payments-0@7@1767225600000")
			equal(t, "failed before", s.last().ReplayedFailed, 1)
			equal(t, "replayed", s.last().Replayed, 1)
			// Other errors of the key are refused in both modes.
			s.cfg.Records.Key, s.consumer = nil, nil
			s.deliver(recordAt("payments-0@9", "x").header(kafka.DefaultKeyHeader, "y"))
			equalSlices(t, "dead letters", s.letters.sources(), "payments-0@7", "payments-0@9")
		})
	}
}

// With HashKeys, no key appears in the store, the log, errors or metrics. (A dead letter contains the
// record.)
func TestHashedKeysDoNotAppearInOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const secret = "tax-id-4711"
		s := newFixture(t)
		s.engine.HashKeys = true
		s.engine.Lease = time.Second
		s.store.hold(store.ClaimRequest{Key: hashed("ledger#payments#" + secret + "-held"), Lease: time.Hour,
			Retention: time.Hour})
		var errs []string
		for range 3 {
			s.ledger.fails(secret+"-fails", errBoom)
			s.ledger.fails(secret+"-poison", idem.Permanent(errBoom))
			s.ledger.on[secret+"-panics"] = func(context.Context, msk.Record) error { panic("nil map") }
			resp, err := s.process(
				recordAt("payments-0@1", secret), recordAt("payments-0@2", secret),
				recordAt("payments-0@3", secret).with("mismatch"),
				recordAt("payments-1@1", secret+"-fails"), recordAt("payments-2@1", secret+"-poison"),
				recordAt("payments-3@1", secret+"-panics"),
				recordAt("payments-4@1", secret+"-held"),
				recordAt("payments-5@1", secret+"a").header(kafka.DefaultKeyHeader, secret+"b"),
			)
			s.store.losing(errNetwork, store.OpComplete, store.OpFail, store.OpRelease, store.OpExtend)
			if err != nil {
				errs = append(errs, err.Error())
			}
			errs = append(errs, places(resp)...)
			s.consumer = nil
			s.cfg.Failures = eventsource.FailBatch
		}
		equal(t, "lines of the log", len(s.log.lines) > 20, true)
		for _, text := range append(errs, s.log.raw.String()) {
			if strings.Contains(text, secret) {
				t.Errorf("a key can be read in %q", text)
			}
		}
		for key := range s.keys() {
			equal(t, "a key that is not hashed: "+key, strings.Contains(key, secret), false)
		}
		for _, l := range s.letters.sent {
			equal(t, "a letter's key", strings.HasPrefix(l.IdempotencyKey, "sha256:"), true)
		}
	})
}

func hashed(key string) string {
	k, err := store.Key(key, true)
	if err != nil {
		panic(err)
	}
	return k
}

package producer_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/producer"
)

// docs/producer.md has the same key from other languages.
func ExampleDerive() {
	fmt.Println(producer.Derive("payment", "account-7", "Rechnung 4711 für Müller"))
	// Output: d86b2e0a-5859-8aba-a5d7-0a106eb87373
}

func TestKeysOfDifferentFieldsDiffer(t *testing.T) {
	seen := make(map[string][]string)
	for _, fields := range [][]string{{""}, {"", ""}, {"a"}, {"a", ""}, {"", "a"}, {"a", "b"}, {"ab"},
		{"a,1:b"}, {"1:a,"}, {"ä"}, {"a\x00b"}, {"a", "b", "c"}} {
		key := producer.Derive(fields...)
		if other, ok := seen[key]; ok || key != producer.Derive(fields...) {
			t.Errorf("%q and %q have the key %s", fields, other, key)
		}
		seen[key] = fields
	}
}

func TestDeriveNeedsAField(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("there is a key of nothing")
		}
	}()
	producer.Derive()
}

func TestTheHeaderIsThatOfConsumers(t *testing.T) {
	if producer.Header != kafka.DefaultKeyHeader {
		t.Errorf("%q; want %q", producer.Header, kafka.DefaultKeyHeader)
	}
}

// The hook keeps a header that is there, and changes no slice of the application.
func TestHookSetsTheHeaderOnce(t *testing.T) {
	hook, ok := producer.Hook(func(r *kgo.Record) string { return string(r.Key) }).(kgo.HookProduceRecordBuffered)
	if !ok {
		t.Fatal("it is no hook for records that are produced")
	}
	common := make([]kgo.RecordHeader, 1, 2)
	common[0] = kgo.RecordHeader{Key: "source", Value: []byte("web")}
	for _, tc := range []struct {
		record kgo.Record
		want   []string
	}{
		{kgo.Record{Key: []byte("a"), Headers: common}, []string{"source=web", "idempotency-key=a"}},
		{kgo.Record{Key: []byte("b"), Headers: common}, []string{"source=web", "idempotency-key=b"}},
		{kgo.Record{Key: []byte("a"), Headers: []kgo.RecordHeader{{Key: "idempotency-key",
			Value: []byte("own")}}}, []string{"idempotency-key=own"}},
		{kgo.Record{Key: []byte("a"), Headers: []kgo.RecordHeader{{Key: "Idempotency-Key",
			Value: []byte("own")}}}, []string{"Idempotency-Key=own"}},
		{kgo.Record{}, nil},
	} {
		first := &tc.record
		hook.OnProduceRecordBuffered(first)
		hook.OnProduceRecordBuffered(first) // produced again by the application
		var got []string
		for _, h := range first.Headers {
			got = append(got, h.Key+"="+string(h.Value))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%q; want %q", got, tc.want)
		}
	}
	if len(common[:2][1].Key) != 0 {
		t.Error("the hook wrote into the slice of the application")
	}
}

package msk_test

import (
	"os"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
)

// The stored form of a key must not change: after a change all stored keys would be unknown.
func TestStoredKeysAreGolden(t *testing.T) {
	golden, err := os.ReadFile("testdata/stored-keys.golden")
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("k", store.MaxKeyBytes)
	var got strings.Builder
	for _, tc := range []struct {
		name string
		set  func(s *fixture)
		r    record
	}{
		{"header", func(*fixture) {}, recordAt("payments-3@17", "pay-42")},
		{"header, namespace scope", func(s *fixture) { s.cfg.Records.KeyScope = kafka.NamespaceScope },
			recordAt("payments-3@17", "pay-42")},
		{"header with separators", func(*fixture) {}, recordAt("payments-3@17", "a#b@c")},
		{"header, long", func(*fixture) {}, recordAt("payments-3@17", long)},
		{"header, hashed", func(s *fixture) { s.engine.HashKeys = true },
			recordAt("payments-3@17", "pay-42")},
		{"offset", func(s *fixture) { s.cfg.Records.Key = kafka.OffsetKey }, recordAt("payments-3@17", "")},
		{"value's hash", func(s *fixture) { s.cfg.Records.Key = kafka.ValueHashKey },
			recordAt("payments-3@17", "").with("value")},
		{"no key", func(s *fixture) { s.cfg.Records.MissingKey = kafka.Process },
			recordAt("payments-3@17", "")},
		{"no key, namespace scope", func(s *fixture) {
			s.cfg.Records.MissingKey, s.cfg.Records.KeyScope = kafka.Process, kafka.NamespaceScope
		}, recordAt("payments-3@17", "")},
		{"rejected", func(*fixture) {}, recordAt("payments-3@17", "")},
	} {
		s := newFixture(t)
		tc.set(s)
		s.deliver(tc.r)
		for key, status := range s.keys() {
			got.WriteString(tc.name + ": " + key + " " + string(status) + "\n")
		}
	}
	if got.String() != string(golden) {
		t.Errorf("the stored keys have changed:\n%s\nwant:\n%s", got.String(), golden)
	}
}

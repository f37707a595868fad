package msk_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
)

// Two functions read one topic, each in its own consumer group, and share a table: each handles every record.
func TestNamespacesDoNotShareKeys(t *testing.T) {
	st := &spy{Store: memstore.New(memstore.Config{})}
	for _, name := range []string{"ledger", "mail"} {
		s := newFixture(t)
		s.store, s.cfg.Records.Namespace, s.cfg.Records.MissingKey = st, name, kafka.Process
		for range 2 {
			equalSlices(t, "reported places", s.deliver(recordAt("payments-0@1", "a"), recordAt("payments-0@2", ""), undecodable("payments-0@3")))
		}
		equal(t, "effects in "+name, s.ledger.total(), 2)
		equalSlices(t, "dead letters of "+name, s.letters.sources(), "payments-0@3")
	}
}

// Payment 42 and refund 42 are two requests, even with equal values, unless the scope is the namespace.
func TestKeysOfTopics(t *testing.T) {
	batch := []record{recordAt("payments-0@1", "42"), recordAt("refunds-0@1", "42")}
	for _, tc := range []struct {
		scope   kafka.KeyScope
		effects int
		keys    []string
	}{
		{kafka.TopicScope, 2, []string{"ledger#payments#42", "ledger#refunds#42"}},
		{kafka.NamespaceScope, 1, []string{"ledger##42"}},
	} {
		for _, together := range []bool{true, false} {
			s := newFixture(t)
			s.cfg.Records.KeyScope = tc.scope
			if together {
				equalSlices(t, "reported places", s.deliver(batch...))
			} else {
				equalSlices(t, "reported places", s.deliver(batch[0]))
				equalSlices(t, "reported places", s.deliver(batch[1]))
			}
			equal(t, "effects", s.ledger.effects["42"], tc.effects)
			equalSlices(t, "keys", slices.Sorted(maps.Keys(s.keys())), tc.keys...)
		}
	}
}

// Records without a key are stored under their topic and timestamp: the offsets of a topic that was deleted and created again
// start at 0 again.
func TestPlacesOfTopics(t *testing.T) {
	reborn := recordAt("payments-0@0", "")
	reborn.raw = `"timestamp":1767225600001`
	for name, key := range map[string]kafka.KeyFunc{"no key": nil, "offset": kafka.OffsetKey} {
		s := newFixture(t)
		s.cfg.Records.Key, s.cfg.Records.MissingKey = key, kafka.Process
		for _, r := range []record{recordAt("payments-0@0", ""), recordAt("refunds-0@0", ""), recordAt("payments-1@0", ""), reborn, recordAt("payments-0@0", "")} {
			equalSlices(t, "reported places", s.deliver(r))
		}
		equal(t, "effects with "+name, s.ledger.total(), 4)
	}
}

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
		{"header, namespace scope", func(s *fixture) { s.cfg.Records.KeyScope = kafka.NamespaceScope }, recordAt("payments-3@17", "pay-42")},
		{"header with separators", func(*fixture) {}, recordAt("payments-3@17", "a#b@c")},
		{"header, long", func(*fixture) {}, recordAt("payments-3@17", long)},
		{"header, hashed", func(s *fixture) { s.engine.HashKeys = true }, recordAt("payments-3@17", "pay-42")},
		{"offset", func(s *fixture) { s.cfg.Records.Key = kafka.OffsetKey }, recordAt("payments-3@17", "")},
		{"value's hash", func(s *fixture) { s.cfg.Records.Key = kafka.ValueHashKey }, recordAt("payments-3@17", "").with("value")},
		{"no key", func(s *fixture) { s.cfg.Records.MissingKey = kafka.Process }, recordAt("payments-3@17", "")},
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

package msk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
)

// With HashKeys no failure shows a key or a value: not in the log, the metrics, the error of the invocation, or a dead letter beside its record.
func TestHashedKeysAreInNoOutput(t *testing.T) {
	const secret = "780511200733780511" // as a number it is more than a double holds exactly
	header := rec("payments-0@1", secret)
	inValue := func(value string) record { return record{place: "payments-0@1", value: value} }
	hash, err := kafka.ValueHashJSONKey()
	if err != nil {
		t.Fatal(err)
	}
	fingerprint, err := kafka.JSONFingerprint("$.id", "$.name")
	if err != nil {
		t.Fatal(err)
	}
	stored, err := store.Key("ledger#payments#"+secret, true)
	if err != nil {
		t.Fatal(err)
	}
	id := func(s *fixture) { s.cfg.Records.Key = jsonKey(t, "$.id") }
	hashed := func(s *fixture) { s.cfg.Records.Key = hash }
	for name, tc := range map[string]struct {
		set     func(s *fixture)
		records []record
	}{
		"key with U+FFFD":         {id, []record{inValue(`{"id":"` + secret + "\uFFFD\"}")}},
		"fingerprint with U+FFFD": {func(s *fixture) { id(s); s.cfg.Records.Fingerprint = fingerprint }, []record{inValue(`{"id":"` + secret + `","name":"` + "\uFFFD\"}")}},
		"hash of U+FFFD":          {hashed, []record{inValue(`["` + secret + "\uFFFD\"]")}},
		"hash of a number":        {hashed, []record{inValue(secret + "1")}},
		"hash of a large number":  {hashed, []record{inValue(secret + "e999")}},
		"not JSON":                {id, []record{inValue(secret + "x")}},
		"two headers":             {nil, []record{header.header(kafka.DefaultKeyHeader, secret+"b")}},
		"another value":           {nil, []record{header, {place: "payments-0@2", key: secret, value: secret}}},
		"value of another type": {func(s *fixture) {
			s.ledger.book = msk.JSON(func(context.Context, int8, msk.Record) (any, error) { return nil, nil })
		}, []record{header.with(secret)}},
		"the handler fails":      {func(s *fixture) { s.ledger.fails(secret, errBoom) }, []record{header}},
		"the handler fails ever": {func(s *fixture) { s.ledger.fails(secret, idem.Permanent(errBoom)) }, []record{header}},
		"in flight": {func(s *fixture) {
			s.store.hold(store.ClaimRequest{Key: stored, Lease: time.Hour, Retention: time.Hour})
		}, []record{header}},
		"the store is down":      {func(s *fixture) { s.store.down(errNetwork) }, []record{header}},
		"the completion is lost": {func(s *fixture) { s.store.losing(errNetwork, store.OpComplete) }, []record{header}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFixture(t)
				var metrics bytes.Buffer
				s.engine.HashKeys, s.cfg.Failures, s.cfg.Report = true, msk.FailBatch, msk.EMF(&metrics, "ledger")
				if tc.set != nil {
					tc.set(s)
				}
				outputs := map[string]string{}
				for range 2 { // the second one finds what the first one left
					if _, err := s.process(tc.records...); err != nil {
						outputs["error"] += err.Error()
					}
				}
				for _, l := range s.letters.sent {
					l.Key, l.Value, l.Headers = nil, nil, nil // the record itself
					letter, _ := json.Marshal(l)
					outputs["dead letter"] += string(letter)
				}
				outputs["log"], outputs["metrics"] = s.log.raw.String(), metrics.String()
				for output, text := range outputs {
					if strings.Contains(text, secret) {
						t.Errorf("the %s has it: %s", output, text)
					}
				}
				if outputs["error"]+outputs["dead letter"] == "" {
					t.Error("nothing failed")
				}
			})
		})
	}
}

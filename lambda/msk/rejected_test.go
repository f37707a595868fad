package msk_test

import (
	"context"
	"math"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
)

// undecodable is a record whose value is not base64.
func undecodable(place string) record { return record{place: place, raw: `"value":"!!!"`} }

// A rejected record is stored under its place, so that redeliveries do not send another dead letter.
func TestRejectedRecordsAreDeadLetteredOnce(t *testing.T) {
	keyPanics := func(context.Context, *msk.Record) (string, error) { panic("no such field") }
	for name, tc := range map[string]struct {
		bad  record
		key  kafka.KeyFunc
		says string
	}{
		"can't be decoded": {bad: undecodable("payments-0@7"), says: "value: illegal base64"},
		"has no key": {bad: recordAt("payments-0@7", ""),
			says: `no idempotency key in the header "idempotency-key"`},
		"has two keys": {bad: recordAt("payments-0@7", "x").header("idempotency-key", "y"),
			says: "more than once"},
		"has a bad redrive": {bad: recordAt("payments-0@7", "x").header("idemsk-redrive", "soon"),
			says: "token of a dead letter"},
		"redrives version 0": {bad: recordAt("payments-0@7", "x").header("idemsk-redrive", "0"),
			says: "token of a dead letter"},
		"makes its key fail": {bad: recordAt("payments-0@7", "x"), key: keyPanics,
			says: "panicked: no such field"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t)
			s.cfg.Records.Key = tc.key
			if tc.key == nil {
				s.cfg.Records.Key = kafka.HeaderKey(kafka.DefaultKeyHeader)
			}
			records := []record{tc.bad}
			if tc.key == nil {
				records = append(records, recordAt("payments-0@8", "b"))
			}
			for n := range 3 {
				equalSlices(t, "reported places", s.deliver(records...))
				equal(t, "dead-lettered", s.last().DeadLettered, max(0, 1-n))
				equal(t, "replayed failures", s.last().ReplayedFailed, min(1, n))
			}
			equalSlices(t, "dead letters", s.letters.sources(), "payments-0@7")
			letter := s.letters.sent[0]
			const remembered = "ledger@payments-0@7@1767225600000"
			equal(t, "the letter's key", letter.IdempotencyKey, remembered)
			equal(t, "the letter's attempts", letter.Attempts, 1)
			wantContains(t, letter.Error.Message, tc.says)
			entry := s.get(remembered)
			equal(t, "status", entry.Status, store.StatusFailed)
			equal(t, "the letter's version", letter.Token, entry.Token)
			equal(t, "calls of the handler for it", s.ledger.calls["x"]+s.ledger.calls["payments-0@7"], 0)
			equal(t, "effects of the one behind", s.ledger.effects["b"], len(records)-1)
		})
	}
}

func TestPanicOfAKeyFunctionIsLoggedWithItsStack(t *testing.T) {
	s := newFixture(t)
	s.cfg.Records.Key = func(context.Context, *msk.Record) (string, error) { panic("no such field") }
	s.deliver(recordAt("payments-0@7", "x"))
	wantContains(t, s.log.about("payments-0@7")["stack"].(string), "rejected_test.go")
}

func TestMismatchIsDeadLetteredAndLeavesTheKeyUnchanged(t *testing.T) {
	s := newFixture(t)
	s.deliver(recordAt("payments-0@1", "a"))
	before := s.get(keyA)
	for range 3 {
		equalSlices(t, "reported places", s.deliver(recordAt("payments-0@7", "a").with("another value")))
	}
	after := s.get(keyA)
	equal(t, "token", after.Token, before.Token)
	equal(t, "the time of the last change", after.UpdatedAt, before.UpdatedAt)
	equal(t, "calls of the handler", s.ledger.calls["a"], 1)
	equalSlices(t, "dead letters", s.letters.sources(), "payments-0@7")
	letter := s.letters.sent[0]
	equal(t, "the letter's key", letter.IdempotencyKey, "ledger@payments-0@7@1767225600000")
	wantContains(t, letter.Error.Message, "another value used this idempotency key before",
		"IDEMSK_FINGERPRINT=json:$.a,$.b", "another fingerprint")
	equal(t, "code", letter.Error.Code, store.CodePermanent)
}

// Without a dead-letter queue no record is given up: the partition is blocked, and an alarm is raised.
func TestWithoutDeadLettersRecordsBlockTheirPartition(t *testing.T) {
	for name, bad := range map[string]record{
		"permanent":    recordAt("payments-0@7", "poison"),
		"undecodable":  undecodable("payments-0@7"),
		"no key":       recordAt("payments-0@7", ""),
		"mismatch":     recordAt("payments-0@7", "a").with("another value"),
		"fails always": recordAt("payments-0@7", "fails"),
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t)
			s.cfg.Records.DeadLetters = nil
			s.ledger.fails("poison", idem.Permanent(errBoom))
			s.ledger.fails("fails", errBoom)
			s.deliver(recordAt("payments-0@1", "a"))
			for range idem.Defaults().MaxAttempts + 2 {
				equalSlices(t, "reported places",
					s.deliver(bad, recordAt("payments-0@8", "b"), recordAt("payments-1@1", "c")),
					"payments-0@7", "payments-0@8")
				checkCounts(t, s.last())
			}
			for key, status := range s.keys() {
				equal(t, "FAILED: "+key, status == store.StatusFailed, false)
			}
			line := s.log.about("payments-0@7")
			equal(t, "level", line["level"], any("ERROR"))
			equal(t, "alarm", line["alarm"], any(true))
			wantContains(t, line["error"].(string), "no dead letters are configured")
			equal(t, "calls for the one behind", s.ledger.calls["b"], 0)
		})
	}
}

// A letter may be sent twice if the process dies, or the store is unavailable, before the key is FAILED.
func TestLetterIsSentAgainIfItsKeyIsNotFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.ledger.fails("poison", idem.Permanent(errBoom))
		s.store.losing(errNetwork, store.OpFail)
		equalSlices(t, "reported places", s.deliver(recordAt("payments-0@7", "poison")), "payments-0@7")
		equal(t, "completion failed", s.last().CompletionFailed, 1)
		s.store.up()
		equalSlices(t, "reported places", s.deliver(recordAt("payments-0@7", "poison")))
		equalSlices(t, "dead letters", s.letters.sources(), "payments-0@7", "payments-0@7")
		if a, b := s.letters.sent[0].Token, s.letters.sent[1].Token; b != a+1 {
			t.Errorf("versions %d and %d; want one after the other", a, b)
		}
	})
}

// Keys that contain the separators of stored keys.
func TestForgedKeysDoNotCollide(t *testing.T) {
	s := newFixture(t)
	records := []record{
		// remembered as payments@payments-0@7
		undecodable("payments-0@7"),
		recordAt("payments-0@8", "payments@payments-0@7"),               // looks like it
		recordAt("payments-0@9", "#"), recordAt("payments-0@10", "a#b"), // a separator
		recordAt("payments-1@1", "refunds#a"), recordAt("refunds-0@1", "a"), // another namespace
		recordAt("payments-1@2", "sha256:"+strings.Repeat("0", 64)), // a hash
		// for stores with paths, or strings that end
		recordAt("payments-1@3", "../../x"), recordAt("payments-1@4", "a\x00b"),
		recordAt("payments-1@5", "\xff\xfe"), recordAt("payments-1@6", strings.Repeat("k", 5000)),
	}
	equalSlices(t, "reported places", s.deliver(records...))
	equal(t, "executed", s.last().Executed, len(records)-1)
	equal(t, "keys", len(s.keys()), len(records))
	for key, status := range s.keys() {
		equal(t, "a record that was rejected is "+key, status == store.StatusFailed,
			key == s.placeKey("payments-0@7"))
		equal(t, "the length of "+key, len(key) <= store.MaxKeyBytes, true)
	}
	equalSlices(t, "reported places", s.deliver(records...))
	equal(t, "replayed", s.last().Replayed, len(records)-1)
}

// A redriven record is executed at a new place, and at its old one, at which the tool invokes the function
// with it.
func TestRedrivenRecordIsExecuted(t *testing.T) {
	for _, place := range []string{"payments-0@9", "payments-0@7"} {
		t.Run(place, func(t *testing.T) {
			s := newFixture(t)
			s.ledger.on["a"] = failing(1, idem.Permanent(errBoom))
			s.deliver(recordAt("payments-0@7", "a"))
			version := s.letters.sent[0].Token
			again := recordAt(place, "a").header(kafka.RedriveHeader, strconv.FormatInt(version, 10))
			again = again.header(kafka.RedriveHeader, "1") // that of a failure before
			equalSlices(t, "reported places", s.deliver(again))
			equal(t, "executed", s.last().Executed, 1)
			equal(t, "effects", s.ledger.effects["a"], 1)
			equalSlices(t, "reported places", s.deliver(again))
			equal(t, "replayed", s.last().Replayed, 1)
		})
	}
}

// A redriven record in one batch with the failed delivery is processed separately; the delivery gets the
// failure.
func TestRedrivenRecordDoesNotShareTheFailure(t *testing.T) {
	s := newFixture(t)
	s.ledger.on["a"] = failing(1, idem.Permanent(errBoom))
	s.deliver(recordAt("payments-0@7", "a"))
	again := recordAt("payments-0@9", "a").header(kafka.RedriveHeader,
		strconv.FormatInt(s.letters.sent[0].Token, 10))
	equalSlices(t, "reported places", s.deliver(recordAt("payments-0@7", "a"), again,
		recordAt("payments-0@10", "a")))
	r := s.last()
	equal(t, "replayed failures", r.ReplayedFailed, 1)
	equal(t, "executed", r.Executed, 1)
	equal(t, "effects", s.ledger.effects["a"], 1)
	checkCounts(t, r)
}

// A letter of a record without a usable key may be redriven in its place, by invoking the function: the
// record is checked again.
func TestRejectedRecordRedrivenInItsPlaceIsCheckedAgain(t *testing.T) {
	s := newFixture(t)
	s.cfg.Records.Key = kafka.HeaderKey("payment-id")
	s.deliver(recordAt("payments-0@7", "x"))
	version := strconv.FormatInt(s.letters.sent[0].Token, 10)
	back := recordAt("payments-0@7", "x").header(kafka.RedriveHeader, version)

	s.deliver(back)
	equal(t, "replayed failures while its cause is not fixed", s.last().ReplayedFailed, 0)
	equal(t, "dead letters", len(s.letters.sent), 2)

	s.cfg.Records.Key = nil // the default
	s.start()
	s.deliver(back)
	equal(t, "effects when its cause is fixed", s.ledger.effects["x"], 1)
}

// An unknown token does not redrive a key: whatever a producer writes into the header, the handler is not
// called again. Since the store may have lost a failure, the record gets a dead letter with the key's current
// token.
func TestUnknownTokenDoesNotRedrive(t *testing.T) {
	for name, atomic := range map[string]bool{"plain mode": false, "atomic mode": true} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t)
			s.ledger.atomic = atomic
			s.ledger.on["a"] = failing(1, idem.Permanent(errBoom))
			s.deliver(recordAt("payments-0@7", "a"))
			failed := s.get(keyA)
			calls := s.ledger.calls["a"]
			forged := recordAt("payments-0@9", "a").header(kafka.RedriveHeader,
				strconv.FormatInt(math.MaxInt64, 10))
			for n := range 3 {
				equalSlices(t, "reported places", s.deliver(forged, recordAt("payments-0@10", "b")))
				equal(t, "dead-lettered", s.last().DeadLettered, max(0, 1-n))
				equal(t, "replayed failures", s.last().ReplayedFailed, min(1, n))
				checkCounts(t, s.last())
			}
			equal(t, "calls of the handler", s.ledger.calls["a"], calls)
			equal(t, "effects", s.ledger.effects["a"], 0)
			equal(t, "the key's version", s.get(keyA).Token, failed.Token)
			equalSlices(t, "dead letters", s.letters.sources(), "payments-0@7", "payments-0@9")
			again := s.letters.sent[1]
			equal(t, "the letter's key", again.IdempotencyKey, keyA)
			equal(t, "the letter's version", again.Token, failed.Token)
			wantContains(t, again.Error.Message, strconv.FormatInt(math.MaxInt64, 10),
				strconv.FormatInt(failed.Token, 10))

			s.deliver(recordAt("payments-0@9", "a").header(kafka.RedriveHeader,
				strconv.FormatInt(again.Token, 10)))
			equal(t, "effects when that letter is redriven", s.ledger.effects["a"], 1)
		})
	}
}

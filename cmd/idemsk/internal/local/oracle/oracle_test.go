package oracle_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/oracle"
	"github.com/idemsk/idemsk/internal/mskevent"
)

func rules() oracle.Rules {
	return oracle.Rules{Key: "header:idempotency-key", Namespace: "f", MaxAttempts: 5, CommitWindow: 256,
		Simulate: true}
}

// message is a payment in partition 0 of the topic t.
func message(offset int64, key, value string) mskevent.Message {
	m := mskevent.Message{Topic: "t", Offset: offset, Value: []byte(value)}
	if key != "" {
		m.Headers = []mskevent.Header{{Key: "idempotency-key", Value: []byte(key)}}
	}
	return m
}

func payment(amount int, more string) string {
	return fmt.Sprintf(`{"paymentId":"p","account":"a","amount":%d,"currency":"EUR"%s}`, amount, more)
}

func ledgerOf(t *testing.T, r oracle.Rules, messages ...mskevent.Message) *oracle.Ledger {
	t.Helper()
	var records []mskevent.Record
	for i := range messages {
		records = append(records, messages[i].Record())
	}
	l := oracle.New(r)
	for range 2 { // a second delivery changes nothing
		if err := l.Add(records); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func TestFirstRecordOfAKeyDecides(t *testing.T) {
	t.Parallel()
	l := ledgerOf(t, rules(),
		message(3, "k", payment(5, "")), // a later offset, although it comes first
		message(1, "k", payment(100, "")),
		message(2, "k", payment(100, "")),
		message(4, "other", payment(7, "")),
	)
	if got := l.Balances(); !maps.Equal(got, map[string]int64{"a/EUR": 107}) || l.Booked() != 2 {
		t.Errorf("balances %v, %d booked; want 107 from 2", got, l.Booked())
	}
	var outcomes []string
	for _, p := range l.Records() {
		outcomes = append(outcomes, fmt.Sprintf("%s %s %s", p.Source, p.Key, p.Outcome))
	}
	want := "t-0@1 f#t#k booked; t-0@2 f#t#k booked; t-0@3 f@t-0@3@0 rejected; t-0@4 f#t#other booked"
	if got := strings.Join(outcomes, "; "); got != want {
		t.Errorf("outcomes:\n got %s\nwant %s", got, want)
	}
}

func TestOutcomeOfASinglePayment(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]oracle.Outcome{
		payment(1, ""):                                                   oracle.Booked,
		payment(-1, `,"unknown":[]`):                                     oracle.Booked,
		payment(1, `,"simulate":"retry:4"`):                              oracle.Booked,
		payment(1, `,"simulate":"sleep:1ms"`):                            oracle.Booked,
		payment(1, `,"simulate":"freeze:1"`):                             oracle.Booked,
		payment(1, `,"simulate":"retry:5"`):                              oracle.Failed,
		payment(1, `,"simulate":"retry"`):                                oracle.Failed,
		payment(1, `,"simulate":"retry:often"`):                          oracle.Failed,
		payment(1, `,"simulate":"permanent"`):                            oracle.Failed,
		payment(1, `,"simulate":"panic"`):                                oracle.Failed,
		payment(1, `,"simulate":"exit"`):                                 oracle.Failed,
		payment(1, `,"simulate":"sleep:long"`):                           oracle.Failed,
		payment(1, `,"simulate":"dance"`):                                oracle.Failed,
		payment(0, ""):                                                   oracle.Failed,
		strings.Replace(payment(1, ""), "EUR", "eur", 1):                 oracle.Failed,
		strings.Replace(payment(1, ""), "EUR", "EURO", 1):                oracle.Failed,
		strings.Replace(payment(1, ""), `"a"`, `""`, 1):                  oracle.Failed,
		strings.Replace(payment(1, ""), `"p"`, `""`, 1):                  oracle.Failed,
		strings.Replace(payment(1, ""), `"amount":1`, `"amount":1.5`, 1): oracle.Failed,
		`{`: oracle.Failed,
		``:  oracle.Failed,
	} {
		if got := ledgerOf(t, rules(), message(1, "k", value)).Records()[0].Outcome; got != want {
			t.Errorf("%s is %s, want %s", value, got, want)
		}
	}
	r := rules()
	r.Simulate = false
	if got := ledgerOf(t, r, message(1, "k", payment(1, `,"simulate":"exit"`))).Records()[0].Outcome; got != oracle.Booked {
		t.Errorf("with simulation off, the outcome is %s", got)
	}
	tombstone := message(1, "k", "")
	tombstone.Value = nil
	if got := ledgerOf(t, rules(), tombstone).Records()[0].Outcome; got != oracle.Failed {
		t.Errorf("a tombstone is %s", got)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	m := message(1, "h", payment(1, ""))
	m.Key = []byte("kafka")
	for key, want := range map[string]string{
		"header:idempotency-key": "f#t#h",
		"key":                    "f#t#kafka",
		"offset":                 "f#t#t-0@1@0",
		"hash":                   "f#t#1a2fd3a7a7cd",
		"header:Idempotency-KEY": "f#t#h",
		"header:absent":          "f@t-0@1@0",
	} {
		r := rules()
		r.Key = key
		if got := ledgerOf(t, r, m).Records()[0].Key; !strings.HasPrefix(got, want) {
			t.Errorf("%s gives %s, want %s", key, got, want)
		}
	}
	r := rules()
	r.Namespace, r.HashKeys = "shop", true
	if got := ledgerOf(t, r, m).Records()[0].Key; !strings.HasPrefix(got, "sha256:") {
		t.Errorf("hashed: %s", got)
	}
	two := message(2, "h", payment(1, ""))
	two.Headers = append(two.Headers, mskevent.Header{Key: "idempotency-key", Value: []byte("other")})
	if got := ledgerOf(t, rules(), two).Records()[0].Outcome; got != oracle.Rejected {
		t.Errorf("two keys: %s", got)
	}
	two.Headers[1].Key = "Idempotency-Key"
	if got := ledgerOf(t, rules(), two).Records()[0].Key; got != "f#t#h" {
		t.Errorf("with the exact name: %s", got)
	}
	two.Headers[0].Key = "IDEMPOTENCY-KEY"
	if got := ledgerOf(t, rules(), two).Records()[0].Outcome; got != oracle.Rejected {
		t.Errorf("two names that differ in case: %s", got)
	}
	r = rules()
	r.Key = "json:$.paymentId"
	if err := oracle.New(r).Add([]mskevent.Record{m.Record()}); err == nil ||
		!strings.Contains(err.Error(), "json:$.paymentId") {
		t.Errorf("a setting that the oracle does not support: %v", err)
	}
}

func TestScopeOfKeys(t *testing.T) {
	t.Parallel()
	of := func(scope string) *oracle.Ledger {
		r := rules()
		r.KeyScope = scope
		refund := message(2, "k", payment(100, ""))
		refund.Topic = "refunds"
		return ledgerOf(t, r, message(1, "k", payment(100, "")), refund)
	}
	if l := of(""); l.Booked() != 2 || l.Records()[1].Key != "f#refunds#k" {
		t.Errorf("by topic: %d booked, %v", l.Booked(), l.Records())
	}
	if l := of("namespace"); l.Booked() != 1 || l.Records()[0].Key != "f##k" {
		t.Errorf("by namespace: %d booked, %v", l.Booked(), l.Records())
	}
}

// Records without a key are booked under their places with IDEMSK_MISSING_KEY=process.
func TestRecordsWithoutKey(t *testing.T) {
	t.Parallel()
	two := message(3, "k", payment(1, ""))
	two.Headers = append(two.Headers, mskevent.Header{Key: "idempotency-key", Value: []byte("other")})
	batch := []mskevent.Message{message(1, "", payment(1, "")),
		message(2, "", payment(-1, `,"simulate":"panic"`)), two}
	for policy, want := range map[string]string{"reject": "rejected rejected rejected",
		"process": "booked failed rejected"} {
		r := rules()
		r.MissingKey = policy
		var outcomes []string
		for _, p := range ledgerOf(t, r, batch...).Records() {
			outcomes = append(outcomes, string(p.Outcome))
		}
		if got := strings.Join(outcomes, " "); got != want {
			t.Errorf("%s: %s; want %s", policy, got, want)
		}
	}
}

func TestReadRules(t *testing.T) {
	t.Parallel()
	r, err := oracle.ReadRules("f", nil)
	if want := rules(); err != nil || r != want {
		t.Errorf("by default: %+v, %v; want %+v", r, err, want)
	}
	r, err = oracle.ReadRules("f", []string{
		"IDEMSK_NAMESPACE=n", "IDEMSK_KEY=offset", "IDEMSK_KEY=hash", "IDEMSK_KEY_SCOPE=namespace",
		"IDEMSK_MISSING_KEY=process",
		"IDEMSK_MAX_ATTEMPTS=2", "IDEMSK_COMMIT_WINDOW=3", "IDEMSK_HASH_KEYS=true", "IDEMSK_SIMULATE=off",
		"OTHER",
	})
	want := oracle.Rules{Key: "hash", Namespace: "n", KeyScope: "namespace", MissingKey: "process",
		MaxAttempts: 2, CommitWindow: 3, HashKeys: true}
	if err != nil || r != want {
		t.Errorf("all: %+v, %v; want %+v", r, err, want)
	}
	_, err = oracle.ReadRules("f", []string{"IDEMSK_MAX_ATTEMPTS=0", "IDEMSK_COMMIT_WINDOW=many",
		"IDEMSK_KEY=json:$.a"})
	for _, says := range []string{`IDEMSK_MAX_ATTEMPTS is "0"`, `IDEMSK_COMMIT_WINDOW is "many"`,
		"json:$.a"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("invalid settings: %v; want an error that says %s", err, says)
		}
	}
}

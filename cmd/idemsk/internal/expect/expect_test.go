package expect_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/expect"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/mskevent"
)

func rules() expect.Rules {
	return expect.Rules{Key: "header:idempotency-key", MaxAttempts: 5, Simulate: true}
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

func ledgerOf(t *testing.T, r expect.Rules, messages ...mskevent.Message) *expect.Ledger {
	t.Helper()
	b, err := mskevent.New("test", messages)
	if err != nil {
		t.Fatal(err)
	}
	l := expect.New(r)
	for range 2 { // a second delivery changes nothing
		if err := l.Add(b); err != nil {
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
	var fates []string
	for _, p := range l.Places() {
		fates = append(fates, fmt.Sprintf("%s %s %s", p.Source, p.Key, p.Fate))
	}
	want := "t-0@1 t#k booked; t-0@2 t#k booked; t-0@3 t@t-0@3 rejected; t-0@4 t#other booked"
	if got := strings.Join(fates, "; "); got != want {
		t.Errorf("fates:\n got %s\nwant %s", got, want)
	}
}

func TestFateOfASinglePayment(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]expect.Fate{
		payment(1, ""):                                                   expect.Booked,
		payment(-1, `,"unknown":[]`):                                     expect.Booked,
		payment(1, `,"simulate":"retry:4"`):                              expect.Booked,
		payment(1, `,"simulate":"sleep:1ms"`):                            expect.Booked,
		payment(1, `,"simulate":"retry:5"`):                              expect.Failed,
		payment(1, `,"simulate":"retry"`):                                expect.Failed,
		payment(1, `,"simulate":"retry:often"`):                          expect.Failed,
		payment(1, `,"simulate":"permanent"`):                            expect.Failed,
		payment(1, `,"simulate":"panic"`):                                expect.Failed,
		payment(1, `,"simulate":"exit"`):                                 expect.Failed,
		payment(1, `,"simulate":"sleep:long"`):                           expect.Failed,
		payment(1, `,"simulate":"dance"`):                                expect.Failed,
		payment(0, ""):                                                   expect.Failed,
		strings.Replace(payment(1, ""), "EUR", "eur", 1):                 expect.Failed,
		strings.Replace(payment(1, ""), "EUR", "EURO", 1):                expect.Failed,
		strings.Replace(payment(1, ""), `"a"`, `""`, 1):                  expect.Failed,
		strings.Replace(payment(1, ""), `"p"`, `""`, 1):                  expect.Failed,
		strings.Replace(payment(1, ""), `"amount":1`, `"amount":1.5`, 1): expect.Failed,
		`{`: expect.Failed,
		``:  expect.Failed,
	} {
		if got := ledgerOf(t, rules(), message(1, "k", value)).Places()[0].Fate; got != want {
			t.Errorf("%s is %s, want %s", value, got, want)
		}
	}
	r := rules()
	r.Simulate = false
	if got := ledgerOf(t, r, message(1, "k", payment(1, `,"simulate":"exit"`))).Places()[0].Fate; got != expect.Booked {
		t.Errorf("with simulation off, trouble is %s", got)
	}
	tombstone := message(1, "k", "")
	tombstone.Value = nil
	if got := ledgerOf(t, rules(), tombstone).Places()[0].Fate; got != expect.Failed {
		t.Errorf("a tombstone is %s", got)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	m := message(1, "h", payment(1, ""))
	m.Key = []byte("kafka")
	for key, want := range map[string]string{
		"header:idempotency-key": "t#h",
		"key":                    "t#kafka",
		"offset":                 "t#t-0@1",
		"hash":                   "t#1a2fd3a7a7cd",
		"header:absent":          "t@t-0@1",
	} {
		r := rules()
		r.Key = key
		if got := ledgerOf(t, r, m).Places()[0].Key; !strings.HasPrefix(got, want) {
			t.Errorf("%s gives %s, want %s", key, got, want)
		}
	}
	r := rules()
	r.Namespace, r.HashKeys = "shop", true
	if got := ledgerOf(t, r, m).Places()[0].Key; !strings.HasPrefix(got, "sha256:") {
		t.Errorf("hashed: %s", got)
	}
	two := message(2, "h", payment(1, ""))
	two.Headers = append(two.Headers, mskevent.Header{Key: "idempotency-key", Value: []byte("other")})
	if got := ledgerOf(t, rules(), two).Places()[0].Fate; got != expect.Rejected {
		t.Errorf("two keys: %s", got)
	}
	r = rules()
	r.Key = "json:$.paymentId"
	b, _ := mskevent.New("test", []mskevent.Message{m})
	if err := expect.New(r).Add(b); err == nil || !strings.Contains(err.Error(), "json:$.paymentId") {
		t.Errorf("a key that is not understood: %v", err)
	}
}

package payments_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/payments"
	"github.com/idemsk/idemsk/internal/mskevent"
)

func messages(t *testing.T, c payments.Config) []mskevent.Message {
	t.Helper()
	var all []mskevent.Message
	for m, err := range c.Messages("payments") {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

func TestSameSeedGivesSamePayments(t *testing.T) {
	t.Parallel()
	c := payments.Config{Records: 1050, Seed: 5}
	first, second := messages(t, c), messages(t, c)
	if len(first) != 1050 || !reflect.DeepEqual(first, second) {
		t.Errorf("%d records, or they differ", len(first))
	}
	c.Seed = 6
	if reflect.DeepEqual(first[0], messages(t, c)[0]) {
		t.Error("another seed gives the same payments")
	}
}

// Payments that freeze the function replace others, and change nothing else.
func TestFreezes(t *testing.T) {
	t.Parallel()
	with := messages(t, payments.Config{Records: 3000, Seed: 1, FreezesPerMille: 10})
	freezes := 0
	for i, m := range messages(t, payments.Config{Records: 3000, Seed: 1}) {
		if reflect.DeepEqual(m, with[i]) {
			continue
		}
		freezes++
		want := strings.TrimSuffix(string(m.Value), "}") + `,"simulate":"freeze:1"}`
		if got := string(with[i].Value); got != want {
			t.Errorf("record %d is %s; want %s", i, got, want)
		}
	}
	if freezes < 15 || freezes > 60 {
		t.Errorf("%d of 3,000 payments freeze; want about 30", freezes)
	}
}

// Some records are copies of one of the latest records.
func TestCopies(t *testing.T) {
	t.Parallel()
	values, places := make(map[string]string), make(map[string]int64)
	copies := 0
	for i, m := range messages(t, payments.Config{Records: 3000, Seed: 1}) {
		if m.Topic != "payments" || m.Offset != int64(i) || m.Headers[0].Key != "idempotency-key" {
			t.Fatalf("record %d: %+v", i, m)
		}
		key := string(m.Headers[0].Value)
		if before, ok := values[key]; ok {
			copies++
			if before != string(m.Value) || m.Offset-places[key] > 1100 {
				t.Errorf("the key %s of record %d had another value, or was last seen at %d", key, i,
					places[key])
			}
		} else {
			places[key] = m.Offset
		}
		values[key] = string(m.Value)
	}
	if copies < 30 || copies > 100 {
		t.Errorf("%d of 3,000 records are copies; want about 60", copies)
	}
}

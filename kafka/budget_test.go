package kafka_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/kafka"
)

// preparing has functions that make the key and the fingerprint of a value, in each of the ways that read it
// as JSON.
func preparing(tb testing.TB) map[string]func(*kafka.Record) error {
	tb.Helper()
	byPath, err1 := kafka.JSONKey("$.id")
	byPaths, err2 := kafka.JSONKey("$.id", "$.p")
	none, err3 := kafka.JSONFingerprint("$.none")
	part, err4 := kafka.JSONFingerprint("$.p")
	hash, err5 := kafka.ValueHashJSONKey()
	hashOfPart, err6 := kafka.ValueHashJSONKey("$.p")
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		tb.Fatal(err)
	}
	with := func(key kafka.KeyFunc, fingerprint kafka.FingerprintFunc) func(*kafka.Record) error {
		return func(r *kafka.Record) error {
			_, err1 := key(context.Background(), r)
			_, err2 := fingerprint(context.Background(), r)
			return errors.Join(err1, err2)
		}
	}
	return map[string]func(*kafka.Record) error{
		"a path": with(byPath, none), "a path and a part": with(byPath, part), "paths": with(byPaths, none),
		"a hash": with(hash, kafka.NoFingerprint), "a hash of a part": with(hashOfPart, kafka.NoFingerprint),
	}
}

// FuzzBudget prepares JSON of 1 MB, most of which is one unit many times.
func FuzzBudget(f *testing.F) {
	const head, tail = `{"id":"k","p":[`, `0]}`
	for _, unit := range []string{
		"0,", "[],", "{},", `{"":0},`, `{"a":0,"b":0},`, `"",`, "1e20,", "1.5e300,", `{"id":{"p":[]}},`,
		`{"id":0,"id":0},`,
		strings.Repeat("[", 50) + strings.Repeat("]", 50) + ",",
		strings.Repeat(`{"":`, 50) + "0" + strings.Repeat("}", 50) + ",",
	} {
		f.Add([]byte(head), []byte(unit), []byte(tail), uint32(1_000_000))
		// with most, about the limit of elements
		f.Add([]byte(head), []byte(unit), []byte(tail), uint32(99_000/strings.Count(unit, ",")))
	}
	for _, unit := range []string{`\u00e9`, `\u0001`, `<`, "\xff", `\ud83d\ude00`} {
		f.Add([]byte(head+`"`), []byte(unit), []byte(`",`+tail), uint32(1_000_000))
	}
	f.Add([]byte(`{"id":1`), []byte("0"), []byte(`}`), uint32(1_000_000))
	f.Add([]byte(`{"p":0`), []byte(`,"p":0`), []byte("}"), uint32(1_000_000))
	f.Add([]byte(strings.Repeat(`{"b":0,"a":`, 9000)), []byte(" "), []byte("0"+strings.Repeat("}", 9000)),
		uint32(1_000_000))
	f.Add(members(90_000, 0), []byte(nil), []byte(`"":0}}`), uint32(1_000_000))
	f.Add(members(900, 1000), []byte(nil), []byte(`"":0}}`), uint32(1_000_000))
	ways := preparing(f)
	f.Fuzz(func(t *testing.T, head, unit, tail []byte, n uint32) {
		r := &kafka.Record{Value: testkit.Repeated(head, unit, tail, n)}
		for _, way := range []string{"a path and a part", "a hash of a part"} { // the ones that do the most
			t.Log(way)
			testkit.WithinBudget(t, func() { _ = ways[way](r) }) // most values have an error
		}
	})
}

// members begins a value in which p has many members, whose names are not sorted and begin with the same long
// prefix.
func members(n, prefix int) []byte {
	const step = 7919 // a prime: all names differ
	value := bytes.NewBufferString(`{"id":1,"p":{`)
	for i := range n {
		fmt.Fprintf(value, `"%s%05d":0,`, strings.Repeat("a", prefix), i*step%n)
	}
	return value.Bytes()
}

// Of a value with more elements than keys and fingerprints are made of, those that are not needed do not
// count.
func TestElementsOfKeysAreBounded(t *testing.T) {
	list := func(n int) string { return "[" + strings.Repeat("0,", n-1) + "0]" }
	within, beyond := list(99_998), list(100_001)
	for name, prepare := range preparing(t) {
		needsAll := strings.HasPrefix(name, "a hash")
		for value, fails := range map[string]bool{
			`{"id":"k","p":` + within + `}`:                     false,
			`{"id":"k","p":` + beyond + `}`:                     name != "a path",
			`{"id":"k","p":1,"q":` + beyond + `}`:               needsAll,
			`{"id":"k","p":` + within + `,"q":` + list(9) + `}`: needsAll,
		} {
			if err := prepare(&kafka.Record{Value: []byte(value)}); (err != nil) != fails || fails &&
				!strings.Contains(err.Error(), "more than 100000 elements") {
				t.Errorf("%s: %.40s…%s: %v", name, value, value[len(value)-9:], err)
			}
		}
	}
}

package kafka_test

import (
	"context"
	"errors"
	"strings"
	"testing"

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

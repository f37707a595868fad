package testkit

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// longVariable is the environment variable that has the tests of kills and outages run at their full size
// (make test-long).
const longVariable = "IDEMSK_TEST_LONG"

// Size returns the size of a test, for example its number of records or kills: the usual one, or the full one
// if IDEMSK_TEST_LONG is set.
func Size(tb testing.TB, usual, full int) int {
	tb.Helper()
	if os.Getenv(longVariable) == "" {
		tb.Logf("size %d; with %s=1 it is %d", usual, longVariable, full)
		return usual
	}
	return full
}

// Number returns the whole number of an environment variable, at least least, and usual if the variable is
// not set.
func Number(tb testing.TB, variable string, usual, least int) int {
	tb.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least {
		tb.Fatalf("%s is %q: want a whole number from %d on", variable, text, least)
	}
	return n
}

// Histories sets the number of random cases that rapid tries in a test, by default 100.
func Histories(tb testing.TB, n int) {
	tb.Helper()
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	set := func(text string) {
		if err := checks.Value.Set(text); err != nil {
			tb.Error(err)
		}
	}
	set(strconv.Itoa(n))
	tb.Cleanup(func() { set(before) })
}

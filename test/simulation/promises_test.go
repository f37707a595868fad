package simulation_test

import (
	"os"
	"strings"
	"testing"
)

// promise is an invariant that not every configuration has.
type promise string

const (
	alone      promise = "two handlers of a key do not run at once"
	protected  promise = "a handler runs with a claim"
	once       promise = "a key completes once"
	settled    promise = "each record is settled"
	unrepeated promise = "a handler that may have had its effect is not called again"
	ordered    promise = "the records of a lane are handled in order"
)

// exception is a configuration in which something is not promised.
type exception struct {
	of   promise
	when func(s *settings) bool
	text string // when, as the documents say it
	left string // what is promised still
}

var exceptions = []exception{
	{alone, func(s *settings) bool { return s.is("clocks", "beyond the skew") },
		"clocks differ by more than `IDEMSK_MAX_CLOCK_SKEW`", "one of them completes"},
	{alone, func(s *settings) bool { return s.is("handler", "layer") },
		"the layer, if a lease is lost while the function runs: it can't be told", "one of them completes"},
	{protected, func(s *settings) bool { return s.failsOpen() },
		"`IDEMSK_STORE_DOWN=open`, while the store does not answer",
		"with a claim as soon as the store answers"},
	{once, (*settings).losesEntries, losesEntries, "as often as it has a new entry, and so do its effects"},
	{unrepeated, func(s *settings) bool { return s.is(effects, "at-least-once") },
		"`IDEMSK_EFFECTS=at-least-once`, the default", "a key completes once"},
	{unrepeated, (*settings).losesEntries, losesEntries, "not as long as the key has an entry"},
	{settled, func(s *settings) bool { return s.is("retries", "8") || s.is("record age", "1m") },
		"the event source has a maximum of retries or of the records' age",
		"what it gives up is in its own destination"},
	{settled, func(s *settings) bool { return s.is("offsets", "forward") || s.is("topic", "recreated") },
		"an operator moves the offsets forward, or deletes the topic",
		"records that were not read are not handled"},
	{ordered, func(s *settings) bool { return s.is("IDEMSK_ORDER", "none") },
		"`IDEMSK_ORDER=none`", "–"},
}

// losesEntries reports whether keys lose their entries.
func (s *settings) losesEntries() bool { return s.retention < faulty || s.is("delete entries", "yes") }

const losesEntries = "the entry of the key is gone: `IDEMSK_RETENTION` is shorter than the time in which a record is delivered again, " +
	"or an operator has deleted it"

// promises reports whether something is promised in the configuration of a run.
func (s *settings) promises(p promise) bool {
	for _, e := range exceptions {
		if e.of == p && e.when(s) {
			return false
		}
	}
	return true
}

// The documents have the same exceptions.
func TestExceptionsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range exceptions {
		if row := "| " + string(e.of) + " | " + e.text + " | " + e.left +
			" |\n"; !strings.Contains(string(page), row) {
			t.Errorf("docs/design.md lacks the row %s", row)
		}
	}
}

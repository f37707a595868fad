package msk_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/idemsk/idemsk/idem/store"
)

func TestLogHasOneLinePerBatchAndPerNotableRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		batch := mixed(s)
		s.log.lines = nil
		s.deliver(batch...)
		lines := s.log.of("batch")
		equal(t, "lines of the batch", len(lines), 1)
		for field, want := range map[string]float64{
			"records": 8, "partitions": 2, "executed": 1, "replayed": 1, "replayedFailed": 1, "duplicates": 1,
			"deadLettered": 1, "retried": 1,
			"notStarted": 2, "reported": 3,
		} {
			equal(t, field, lines[0][field], any(want))
		}
		for _, field := range []string{"overruns", "fenced", "storeDown"} {
			equal(t, field, lines[0][field], nil)
		}
		equal(t, "level of the batch", lines[0]["level"], any("WARN"))

		for source, want := range map[string]struct{ outcome, level, key string }{
			"payments-0@5": {"Replayed", "INFO", "ledger#payments#before"},
			"payments-0@6": {"Duplicate", "INFO", "ledger#payments#new"},
			"payments-0@7": {"DeadLettered", "ERROR", "ledger#payments#poison"},
			"payments-0@8": {"ReplayedFailed", "INFO", "ledger#payments#failed"},
			"payments-1@1": {"Retry", "WARN", "ledger#payments#later"},
			"payments-1@2": {"Behind", "DEBUG", ""},
			"payments-1@3": {"Behind", "DEBUG", ""},
		} {
			line := s.log.about(source)
			equal(t, source+": outcome", line["outcome"], any(want.outcome))
			equal(t, source+": level", line["level"], any(want.level))
			key, _ := line["key"].(string)
			equal(t, source+": key", key, want.key)
		}
		equal(t, "duplicates", s.log.about("payments-0@6")["duplicate"], any(true))
		equal(t, "lines about records", len(s.log.of("record")), 7)
		equal(t, "a line about the one that was executed", s.log.about("payments-0@4") != nil, false)
		line := s.log.about("payments-1@1")
		equal(t, "attempt", line["attempt"], any(1.0))
		equal(t, "token", int64(line["token"].(float64)), s.get("ledger#payments#later").Token)
		equal(t, "error", line["error"], any("boom"))
	})
}

func TestBatchWithoutFailuresIsLoggedAtInfo(t *testing.T) {
	s := newFixture(t)
	s.deliver(recordAt("payments-0@1", "a"))
	line := s.log.of("batch")[0]
	equal(t, "level", line["level"], any("INFO"))
	equal(t, "error", line["error"], nil)
	took, ok := line["tookMs"].(float64)
	equal(t, "it says how long it took, in milliseconds", ok && took > 0 && took < 10_000, true)
}

func TestDisabledLevelsAreNotWritten(t *testing.T) {
	s := newFixture(t)
	s.cfg.Records.Logger = slog.New(slog.NewJSONHandler(s.log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	s.ledger.fails("bad", errBoom)
	s.deliver(recordAt("payments-0@1", "a"), recordAt("payments-0@2", "a"), recordAt("payments-0@3", "bad"),
		recordAt("payments-0@4", "b"))
	equal(t, "lines", len(s.log.lines), 2)
	equal(t, "outcome", s.log.of("record")[0]["outcome"], any("Retry"))
}

// A completed record whose result is too large is settled. The log names it, because its duplicates get no
// result.
func TestTooLargeResultIsLoggedWithItsSize(t *testing.T) {
	s := newFixture(t)
	s.engine.MaxResult = 20
	key := strings.Repeat("k", 20)
	equalSlices(t, "reported places", s.deliver(recordAt("payments-0@1", key),
		recordAt("payments-0@2", "short")))
	line := s.log.about("payments-0@1")
	equal(t, "outcome", line["outcome"], any("Executed"))
	equal(t, "level", line["level"], any("WARN"))
	wantContains(t, line["error"].(string), "31 bytes", "the limit is 20")
	equal(t, "a line about the one that fits", s.log.about("payments-0@2") != nil, false)
	s.deliver(recordAt("payments-0@3", key))
	wantContains(t, s.log.about("payments-0@3")["error"].(string), "31 bytes")
	equal(t, "replayed", s.last().Replayed, 1)

	s = newFixture(t)
	s.engine.MaxResult = -1 // none is wanted
	s.deliver(recordAt("payments-0@1", key))
	equal(t, "lines about records", len(s.log.of("record")), 0)
	equal(t, "status", s.get("ledger#payments#"+key).Status, store.StatusCompleted)
}

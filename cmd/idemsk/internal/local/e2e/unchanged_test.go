//go:build rest

package e2e_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

// unchanged is a run of an unchanged function that sends payments to a ledger, behind the layer.
type unchanged struct {
	function string
	env      []string
	queue    string  // ""; a topic
	calls    string  // IDEMSK_CALL_RECORDS; "" is the default
	batch    bool    // the mapping has no ReportBatchItemFailures
	kill     float64 // local.Faults.Kill
	copies   float64 // the share of records that the producer sends twice
}

// The event sources. A message of a queue comes again after the visibility timeout.
const (
	standard = "payments"
	fifo     = "payments.fifo"
)

const visibility = 3 * time.Second

// options returns the options of the run. Each batch is delivered twice.
func (u *unchanged) options(t *testing.T, records int) local.Options {
	t.Helper()
	o := options(t, records, local.Faults{Duplicate: 1, Kill: u.kill})
	o.Function, o.Prove, o.ESM.Pollers, o.Copies = u.function, false, 2, u.copies
	o.Env = slices.Clone(u.env)
	if u.calls != "" {
		o.Env = append(o.Env, "IDEMSK_CALL_RECORDS="+u.calls)
	}
	if o.Queue = u.queue; u.queue != "" {
		o.ESM.BatchSize, o.Visibility = 10, visibility
	}
	if u.batch {
		o.ESM.FunctionResponseTypes = nil
	}
	return o
}

// run delivers the payments of a run.
func (l *ledger) run(o local.Options) *local.Report {
	l.Helper()
	o.Env = append(o.Env, "LEDGER_URL="+l.url)
	report, err := local.Run(bounded(l.T, 10*time.Minute), o)
	if err != nil {
		l.Fatal(err)
	}
	l.Log("\n" + report.Text())
	if report.Redelivered == 0 || report.Lag() != 0 {
		l.Errorf("%d batches were delivered twice, lag %d", report.Redelivered, report.Lag())
	}
	return report
}

// A function that raises an error for one record in twenty, at first or always, books every other record, in the order
// of each key. Nothing is booked twice: with several records in a call only what was in a call that raised. A function
// whose process dies instead is the same.
func TestFunctionThatRaises(t *testing.T) {
	python, node := languages(t, "ledger.handler")
	python, node = behindLayer(t, python, node)
	byKey := []string{"IDEMSK_ORDER=key"}
	for name, u := range map[string]unchanged{
		"Python, topic":          {function: python, batch: true},
		"Python, topic, dies":    {function: python, env: []string{"REFUSED=die"}},
		"Python, keys":           {function: python, env: byKey},
		"Python, keys, 2":        {function: python, env: byKey, calls: "2"},
		"Python, keys, 10":       {function: python, env: byKey, calls: "10"},
		"Python, keys, 100":      {function: python, env: byKey, calls: "100"},
		"Python, standard queue": {function: python, queue: standard},
		"Python, FIFO queue":     {function: python, queue: fifo},
		"Python, FIFO queue, 2":  {function: python, queue: fifo, calls: "2"},
		"Python, FIFO queue, 10": {function: python, queue: fifo, calls: "10"},
		"Node, topic":            {function: node, batch: true},
		"Node, keys":             {function: node, env: byKey},
		"Node, standard queue":   {function: node, queue: standard, calls: "1"},
		"Node, FIFO queue":       {function: node, queue: fifo},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u.copies = 0.05
			o := u.options(t, testkit.Size(t, 120, 3000))
			l := newLedger(t, &o)
			l.attempts, l.several = attempts, cmp.Or(u.calls, "1") != "1"
			report, most := l.run(o), 1
			if l.several {
				most = 2
			}
			l.check(report, most)
			if failed := report.Outcomes.FailedCalls; (failed > 0) != l.several {
				t.Errorf("%d calls of several records failed", failed)
			}
		})
	}
}

// Powertools' processors for FIFO queues stop at the first failure of the call, or of a group, and name the rest.
// Behind the layer the groups keep their order, and nothing is booked twice.
func TestPowertoolsProcessorsOfFIFOQueues(t *testing.T) {
	packages, modules := powertools(t)
	python, node := languages(t, "fifo.handler", packages)
	python, node = behindLayer(t, python, node)
	for name, u := range map[string]unchanged{
		"Python":           {function: python},
		"TypeScript":       {function: node, env: []string{"PROCESSOR=sync"}},
		"TypeScript async": {function: node, env: []string{"PROCESSOR=async"}},
	} {
		for _, skip := range []string{"false", "true"} {
			for _, calls := range []string{"", "10"} {
				t.Run(name+", skip group "+skip+", "+cmp.Or(calls, "the default"), func(t *testing.T) {
					t.Parallel()
					u := u
					u.queue, u.calls = fifo, calls
					u.env = append([]string{"SKIP_GROUP=" + skip, "NODE_PATH=" + modules}, u.env...)
					o := u.options(t, testkit.Size(t, 120, 2000))
					l := newLedger(t, &o)
					// The first message of a group that is named behind a failure of another group has used an attempt.
					l.attempts, l.several = attempts-1, calls != ""
					l.check(l.run(o), 1)
				})
			}
		}
	}
}

// The function's processes are killed in the middle of calls. Each key completes once, in the order of the keys, and
// what was in a call that did not end runs again.
func TestKillsInTheMiddleOfCalls(t *testing.T) {
	python, node := languages(t, "ledger.handler")
	python, _ = behindLayer(t, python, node)
	for name, u := range map[string]unchanged{
		"keys, 1":        {env: []string{"IDEMSK_ORDER=key"}, calls: "1"},
		"keys, 2":        {env: []string{"IDEMSK_ORDER=key"}, calls: "2"},
		"keys, 100":      {env: []string{"IDEMSK_ORDER=key"}, calls: "100"},
		"FIFO queue, 1":  {queue: fifo, calls: "1"},
		"FIFO queue, 10": {queue: fifo, calls: "10"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u.function, u.kill = python, 0.3
			u.env = append(u.env, "IDEMSK_MAX_ATTEMPTS=25") // kills must not use up the attempts of a record
			o := u.options(t, testkit.Size(t, 200, 3000))
			o.ESM.BatchSize = 10
			l := newLedger(t, &o)
			for _, e := range l.entries {
				e.poison = false
			}
			report := l.run(o)
			l.check(report, 2+len(report.Kills))
			if n := report.Keys[store.StatusCompleted]; n != len(l.entries) || len(report.Kills) == 0 {
				t.Errorf("%d keys are completed after %d kills; want %d", n, len(report.Kills), len(l.entries))
			}
		})
	}
}

//go:build rest

// Package browser_test tests the page of idemsk local in a real browser.
package browser_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/handlertest"
)

const root = "../../../../.."

// handler is the path of the example function.
var handler string //nolint:gochecknoglobals // set once, before any test

func TestMain(m *testing.M) { os.Exit(handlertest.Main(m, &handler, handlertest.IdleConnections()...)) }

// picturesVariable names a folder. If it is set, the test keeps its screenshots there, as docs/images has
// them.
const picturesVariable = "IDEMSK_TEST_PICTURES"

// compare runs the example function with and without idemsk on records that are delivered twice.
func compare(ctx context.Context, o local.Options) error {
	o.UntilDrained, o.Prove, o.Faults.Duplicate, o.Compare = true, true, 1, true
	return once(ctx, o)
}

func once(ctx context.Context, o local.Options) error {
	_, err := local.Run(ctx, o)
	return err
}

// start starts a run of the example function, and returns the address of its page. Nothing is delivered until
// opened is closed.
func start(ctx context.Context, t testing.TB, runs func(ctx context.Context, o local.Options) error,
	opened <-chan struct{}) string {
	t.Helper()
	o := local.Options{
		ESM: esm.DefaultConfig(), Partitions: 3, Function: "'" + handler + "'", Example: true,
		FunctionName: "payments", Store: local.StoreFake,
		Env: []string{"IDEMSK_LEASE=1s"}, Seed: 7, Produce: 40, Log: io.Discard,
		UI: local.UI{Addr: "127.0.0.1:0"},
	}
	o.ESM.Topics, o.ESM.ConsumerGroup, o.ESM.BatchSize = []string{"payments"}, "group", 10
	page := make(chan string, 1)
	o.Say = func(line string) {
		if at, ok := strings.CutPrefix(line, "Page: "); ok {
			page <- at
			<-opened
		}
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- runs(ctx, o) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case at := <-page:
		return at
	case err := <-ended:
		ended <- nil
		t.Fatalf("the run has ended: %v", err)
		return ""
	}
}

// Each view shows a live run with faults, buttons do what they say, and axe-core has nothing to report, in
// both schemes and on a telephone.
func TestViews(t *testing.T) {
	b := launch(t)
	b.look(1280, 800, "light")
	b.open("topic")
	b.wait("done\n40")
	b.check("topic")
	b.open("faults")
	b.wait("Pause a process beyond its lease")
	b.check("faults")
	b.file(`{"key":"bob","value":` + payment("pay-41") + `,"headers":{"idempotency-key":"pay-41"}}` + "\n{}")
	b.wait("nothing was produced: line 2: the record has no")
	b.file(`{"key":"bob","value":` + payment("pay-41") + `,"headers":{"idempotency-key":"pay-41"}}`)
	b.wait("Produced 1 record to payments.")
	b.open(record("pay-41"))
	b.wait("completes the key")
	b.open("faults")
	b.click("Kill a process after its effect")
	b.wait("is killed before it gets the answer")
	b.produce("pay-43", payment("pay-43"))
	b.open(record("pay-43"))
	b.wait("the next delivery finds that")
	b.wait("gets the stored result")
	b.check("history-killed")
	b.open("faults")
	b.click("Pause a process beyond its lease")
	b.wait("is paused at its completion")
	b.produce("pay-42", payment("pay-42"))
	b.open(record("pay-42"))
	for _, text := range []string{"claims the key", "is paused", "The lease is over", "takes the key over",
		"completes the key", "continues", "is older than that of the entry"} {
		b.wait(text)
	}
	if arrows := do(b, "arrows", chromedp.Evaluate[int](
		`document.querySelectorAll('svg .arrow').length`)); arrows < 6 {
		t.Errorf("the drawing has %d arrows", arrows)
	}
	b.check("history")
	b.look(390, 844, "dark")
	b.check("history-narrow")
	b.open("records")
	b.wait("pay-42")
	b.check("records-narrow")
	b.look(1280, 800, "dark")
	b.open("ledger")
	b.wait("Each payment is booked once, to the cent.")
	b.check("ledger-live")
	b.open("invocations")
	b.wait("The last 100")
	b.wait("payments-")
	b.check("invocations")
	b.open("invocation/1")
	b.wait(`"eventSource": "aws:kafka"`)
	b.check("invocation")
	b.click("Deliver it to two processes at once")
	b.wait("The batch was delivered to two processes at once.")
	b.open("faults")
	b.wait("Disable")
	b.click("Disable")
	b.wait("disabled")
	b.click("Enable")
	b.wait("enabled")
}

// A fault is shown while it lasts, in red or amber and on each view. The page of a key has its record, and an
// invocation what became of each record, at both widths.
func TestFaultsAndRecordsAreShown(t *testing.T) {
	const level = `document.body.dataset.level`
	long := strings.Repeat("long-", 60)
	b := launch(t)
	for width, height := range map[int64]int64{1280: 800, 390: 844} {
		b.look(width, height, "light")
		b.open("faults")
		b.click("Slow the store down")
		b.wait("Each request to the store takes 1s more. Until ")
		if got := b.eval(level); got != "warn" {
			t.Errorf("the level is %q while the store is slow", got)
		}
		b.click("Let the store fail")
		b.wait("The store answers each request with an error. Until ")
		if got := b.eval(level); got != "bad" {
			t.Errorf("the level is %q while the store fails", got)
		}
		b.check(fmt.Sprintf("alarms-%d", width))
		if err := b.until(level + ` === "" && document.querySelectorAll('.alarm').length === 0`); err != nil {
			t.Fatalf("the banner stays: %v", err)
		}
		id := fmt.Sprintf("%s%d", long, width)
		b.produce(id, payment(id))
		b.open(record(id))
		b.wait("completes the key")
		b.wait("\"paymentId\": \"" + id)
		b.wait("idempotency-key")
		b.check(fmt.Sprintf("key-%d", width))
		b.open("records")
		b.wait("All these keys begin with payments#payments#")
		if got := b.eval(`String([...document.querySelectorAll('td.key a')].some(a => a.textContent.includes('#') || a.offsetHeight > 60))`); got != "false" {
			t.Errorf("a key has the common prefix, or more than two lines")
		}
		b.check(fmt.Sprintf("records-%d", width))
		b.open("invocation/1")
		b.wait("completed")
		b.wait("\"account\":")
		b.wait("All these keys begin with payments#payments#")
		b.check(fmt.Sprintf("invocation-%d", width))
		for _, view := range []string{"topic", "invocations", "letters", "ledger", "faults"} {
			b.open(view)
			b.wait("Records")
			b.check(fmt.Sprintf("%s-%d", view, width))
		}
	}
}

// The verdict stays on the page when the run has ended, with that of the same records without idemsk beside
// it.
func TestVerdict(t *testing.T) {
	opened := make(chan struct{})
	release := sync.OnceFunc(func() { close(opened) })
	t.Cleanup(release)
	b := launchWith(t, compare, opened)
	t.Cleanup(release) // before the browser ends: the run waits for it
	b.look(1280, 800, "light")
	b.open("ledger")
	b.wait("There are no records yet.")
	release()
	b.wait("ended")
	for _, text := range []string{"with idemsk", "without idemsk",
		"Each payment is booked once, to the cent.", "accounts are wrong", "Accounts that differ",
		"account-01/EUR"} {
		b.wait(text)
	}
	b.check("ledger")
	b.look(390, 844, "dark")
	b.check("ledger-narrow")
}

// Script in keys, values, headers, results and errors is shown and does not run.
func TestHostileRecords(t *testing.T) {
	const script = `<img src=x onerror="window.hit=1"><script>window.hit=1</script>`
	b := launch(t)
	b.look(1280, 800, "light")
	b.open("faults")
	b.wait("Produce a record")
	b.produce(script, payment(script))
	b.produce(script+"2", `{"paymentId":"pay-2","account":"alice","amount":500,"currency":"EUR","simulate":"`+
		strings.ReplaceAll(script, `"`, `\"`)+`"}`)
	b.open("records")
	b.wait(script + "2")
	b.check("hostile")
	b.open(record(script))
	b.wait("completes the key")
	b.wait(script)
	b.open("letters")
	b.wait(`simulate is "<img src=x`)
	b.check("letters")
	b.click("Redrive all")
	b.wait("1 dead letter redriven.")
	b.open("invocation/5")
	b.wait("\"idempotency-key\"")
	if got := b.eval(`String(window.hit) + document.querySelectorAll('main img, main script').length`); got != "undefined0" {
		t.Errorf("a script of a record was run: %s", got)
	}
}

// BenchmarkFirstPaint measures the median time from the start of a navigation until the page is painted, in a
// browser that has painted it before.
func BenchmarkFirstPaint(t *testing.B) {
	b := launch(t)
	b.look(1280, 800, "light")
	b.open("records")
	b.wait("completed")
	var paints []float64
	for range t.N {
		b.open("records")
		if err := b.until("performance.getEntriesByType('paint').length > 0"); err != nil {
			t.Fatal(err)
		}
		paints = append(paints, do(b, "the paint",
			chromedp.Evaluate[float64]("performance.getEntriesByType('paint')[0].startTime")))
	}
	slices.Sort(paints)
	t.ReportMetric(paints[len(paints)/2], "ms/paint")
	t.ReportMetric(paints[len(paints)-1], "slowest-ms")
}

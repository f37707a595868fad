package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/verify"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// report is the result of a run.
type report struct {
	plan      plan
	version   string
	goVersion string
	modules   map[string]string

	steps    []step
	notRun   []string // steps that LocalStack has no part for
	result   *verify.Result
	frozen   int // payments that ask for a freeze
	killed   int // of those: were booked in a later attempt
	invoked  int // invocations that booked something
	bookings int
	counts   *local.Counts // of the local event source
	left     string        // what was not destroyed, and the command for it
}

// step is a step that was taken.
type step struct {
	name string
	took time.Duration
	err  error
}

// do takes a step, if none has failed.
func (r *report) do(name string, f func() error) {
	if r.failed() == nil {
		r.take(name, f)
	}
}

// take takes a step in every case.
func (r *report) take(name string, f func() error) {
	begun := time.Now()
	err := f()
	r.steps = append(r.steps, step{name: name, took: time.Since(begun), err: err})
}

func (r *report) failed() error {
	for i := range r.steps {
		if r.steps[i].err != nil {
			return r.steps[i].err
		}
	}
	return nil
}

// ok reports whether everything was done, and the ledger is exact.
func (r *report) ok() bool { return r.failed() == nil && r.result != nil && r.result.OK() }

// private matches what identifies an account: ARNs, account IDs, access keys, queue URLs, and the IDs of
// resources in a VPC.
var private = regexp.MustCompile(`arn:aws[a-z-]*:\S+|https?://\S+|\b\d{12}\b|\b(AKIA|ASIA)[A-Z0-9]{12,}\b` +
	`|\b(vpc|subnet|sg|eni|vpce|rtb)-[0-9a-f]{8,17}\b|\bboot-\S+`)

func redact(text string) string { return private.ReplaceAllString(text, "…") }

// text returns the report in Markdown, without what identifies the account.
func (r *report) text() string {
	var b strings.Builder
	verdict := "the ledger is exact"
	if !r.ok() {
		verdict = "FAILED"
	}
	fmt.Fprintf(&b, "## aws-check: %s\n\n", verdict)
	r.versions(&b)
	b.WriteString("\n| step | took | |\n| --- | --- | --- |\n")
	for _, s := range r.steps {
		ended := "ok"
		if s.err != nil {
			ended = "failed"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", s.name, s.took.Round(time.Second), ended)
	}
	for _, name := range r.notRun {
		fmt.Fprintf(&b, "| %s | – | not run: LocalStack has no part for it |\n", name)
	}
	r.ledger(&b)
	if err := r.failed(); err != nil {
		fmt.Fprintf(&b, "\nFailure:\n```text\n%s\n```\n", term.Escape(err.Error()))
	}
	return redact(b.String()) + r.left // a command needs its names
}

func (r *report) versions(b *strings.Builder) {
	place, pollers := "AWS, "+r.plan.region, "provisioned"
	if r.plan.local {
		place = "LocalStack"
	}
	if r.plan.onDemand {
		pollers = "on demand"
	}
	fmt.Fprintf(b, "idemsk %s, %s, %s, pollers %s, seed %d", r.version, r.goVersion, place, pollers,
		r.plan.payments.Seed)
	for _, path := range slices.Sorted(maps.Keys(r.modules)) {
		fmt.Fprintf(b, ", %s %s", path[strings.LastIndexByte(path, '/')+1:], r.modules[path])
	}
	b.WriteString("\n")
}

// ledger adds what was found.
func (r *report) ledger(b *strings.Builder) {
	v := r.result
	if v == nil {
		return
	}
	b.WriteString("\n| | |\n| --- | --- |\n")
	row := func(name, format string, args ...any) {
		fmt.Fprintf(b, "| %s | %s |\n", name, fmt.Sprintf(format, args...))
	}
	row("records sent", "%s, with %s duplicates", term.Count(v.Records), term.Count(v.Records-r.distinct()))
	if c := r.counts; c != nil {
		row("deliveries of records", "%s in %s invocations", term.Count(c.Delivered), term.Count(c.Invocations))
		row("batches delivered again", "%s, and %s twice at once", term.Count(c.Redelivered),
			term.Count(c.Concurrent))
		row("invocations that failed", "%s, the last one with: %s", term.Count(c.Failed),
			term.Escape(c.LastError))
	}
	row("payments that freeze the process", "%d of %d were booked in a later attempt", r.killed, r.frozen)
	row("bookings", "%s for %s payments, by %s invocations", term.Count(r.bookings), term.Count(v.Payments),
		term.Count(r.invoked))
	row("ledger must be", "%s", verify.Amounts(v.Expected))
	row("ledger is", "%s", verify.Amounts(v.Found))
	row("dead letters", "%d", len(v.Letters))
	if text := verify.Letters(v.Letters); text != "" {
		fmt.Fprintf(b, "\n```text\n%s```\n", text)
	}
	if !v.OK() {
		const most = 20
		b.WriteString("\nWhat differs:\n")
		for _, problem := range v.Problems[:min(len(v.Problems), most)] {
			b.WriteString("- " + term.Escape(problem) + "\n")
		}
		fmt.Fprintf(b, "\n%d in all\n", len(v.Problems))
	}
}

// distinct returns the number of different payments that were sent: each is booked or a dead letter.
func (r *report) distinct() int {
	keys := make(map[string]bool)
	for i := range r.result.Letters {
		keys[r.result.Letters[i].IdempotencyKey] = true
	}
	return r.result.Payments + len(keys)
}

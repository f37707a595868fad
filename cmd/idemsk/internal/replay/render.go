package replay

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/proof"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// maxShown bounds the lists in the text; the JSON has all. width is that of the sentences below them.
const (
	maxShown = 10
	width    = 110
)

// Text is the report for people.
func (r *Report) Text() string {
	var b strings.Builder
	b.WriteString(r.heading() + "\n\n" + r.table() + "\n" + r.letters())
	if r.Without != nil {
		b.WriteString(list("Without idemsk, the event source gave up:", r.Without.GivenUp))
	}
	b.WriteString(list("PROBLEMS", r.Problems))
	b.WriteString(term.Wrap(r.Proof, width) + "\n")
	if r.OK && r.With.Killed > 0 {
		b.WriteString("\n" + term.Wrap("What it does not show: a process that dies between a payment and its completion pays again when the lease is over. "+
			"Plain mode can't prevent that, and the kills here are placed where it can't happen.", width) + "\n")
	}
	return b.String()
}

func (r *Report) heading() string {
	var parts []string
	if r.Files > 0 {
		parts = append(parts, term.Plural(r.Files, "sample event", "sample events"))
	}
	if r.Records > 0 {
		parts = append(parts, fmt.Sprintf("%s over %s in batches of %s (seed %d)", term.Plural(r.Records, "generated record", "generated records"),
			term.Plural(r.Partitions, "partition", "partitions"), term.Count(r.BatchSize), r.Seed))
	}
	return term.Escape("idemsk replay: " + strings.Join(parts, ", then ") + ", on " + r.Store)
}

// row is a line of the table: a label, and the cell of a pass.
type row struct {
	label string
	cell  func(p *Pass) string
}

func count(f func(p *Pass) int) func(p *Pass) string {
	return func(p *Pass) string { return term.Count(f(p)) }
}

func perRequest(f func(p *Pass) float64) func(p *Pass) string {
	return func(p *Pass) string {
		if f(p) == 0 {
			return "-"
		}
		return strconv.FormatFloat(f(p), 'f', 2, 64)
	}
}

// rows are the lines of the report. Without a stream there is no rate.
func (r *Report) rows() []row {
	rows := []row{
		{"records delivered", count(func(p *Pass) int { return p.Delivered })},
		{"  (of these, in settled batches that came again)", count(func(p *Pass) int { return p.Redelivered })},
		{"  executed", count((*Pass).executed)},
		{"  replayed: the stored result, no call", count(func(p *Pass) int { return p.Outcomes.Replayed })},
		{"  replayed as failed: no second letter", count(func(p *Pass) int { return p.Outcomes.ReplayedFailed })},
		{"  in-batch duplicates", count(func(p *Pass) int { return p.Outcomes.Duplicates })},
		{"  retried", count(func(p *Pass) int { return p.Outcomes.Retried })},
		{"  dead-lettered", count(func(p *Pass) int { return p.Outcomes.DeadLettered })},
		{"  not begun: behind a retried one, or cut off", count((*Pass).notBegun)},
		{"invocations", count(func(p *Pass) int { return p.Invocations })},
		{"  processes killed before an effect", count(func(p *Pass) int { return p.Killed })},
		{"  processes that died by themselves", count(func(p *Pass) int { return p.Crashes })},
		{"  cold starts", count(func(p *Pass) int { return p.ColdStarts })},
	}
	if r.Records > 0 {
		rows = append(rows, row{"records a second", count(func(p *Pass) int { return int(p.RecordsPerSecond) })})
	}
	return append(rows, []row{
		{"requests for a fresh record, batching " + r.Batching, perRequest(func(p *Pass) float64 { return p.RequestsPerFresh })},
		{"requests for a duplicate, batching " + r.Batching, perRequest(func(p *Pass) float64 { return p.RequestsPerDuplicate })},
		{"ledger: must be", func(*Pass) string { return proof.Amounts(r.Expected) }},
		{"ledger: is", func(p *Pass) string { return proof.Amounts(p.Ledger) }},
		{"ledger: off by", func(p *Pass) string { return proof.Amounts(proof.Off(p.Off)) }},
	}...)
}

// notBegun is what is left of the records delivered.
func (p *Pass) notBegun() int {
	o := &p.Outcomes
	counted, _ := o.Sum()
	return p.Delivered - p.ExecutedUnreported - (counted - o.NotStarted - o.InFlight - o.CompletionFailed - o.StoreDown - o.Overruns)
}

func (r *Report) table() string {
	var t term.Table
	t.Right(1, 2)
	passes := []*Pass{&r.With}
	heads := []string{"", "with idemsk"}
	if r.Without != nil {
		passes, heads = append(passes, r.Without), append(heads, "without")
	}
	t.Row(heads...)
	for _, row := range r.rows() {
		cells := []string{row.label}
		for _, p := range passes {
			cells = append(cells, row.cell(p))
		}
		t.Row(cells...)
	}
	return t.String()
}

// letters shows the first dead letters.
func (r *Report) letters() string {
	all := r.With.DeadLetters
	if len(all) == 0 {
		return ""
	}
	var t term.Table
	for _, l := range all[:min(len(all), maxShown)] {
		t.Row("  "+l.Source, cmp.Or(l.Code, "-"), term.Cut(l.Cause, 100)) //nolint:mnd // the table's width
	}
	text := "Dead letters:\n" + t.String()
	if more := len(all) - maxShown; more > 0 {
		text += fmt.Sprintf("  and %d more (--json shows all)\n", more)
	}
	return text + "\n"
}

func list(title string, lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(title + "\n")
	for i, line := range lines {
		if i == maxShown {
			fmt.Fprintf(&b, "  and %s more (--json shows all)\n", term.Count(len(lines)-maxShown))
			break
		}
		b.WriteString("  " + term.Escape(line) + "\n")
	}
	return b.String() + "\n"
}

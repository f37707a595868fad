package redrive

import (
	"fmt"
	"slices"
	"strings"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/kafka"
)

// output prints results: each at once as a line of JSON, or in tables of up to tableRows rows.
type output struct {
	streams  command.Streams
	json     bool
	dry      bool // shows values and headers
	whole    bool // shows each letter in rows of its own, not shortened
	table    term.Table
	problems []string
	counts   map[Outcome]int
	meter    *meter
	err      error // of writing
}

// contentWidth is the width of a column of values, headers or places, in runes.
const contentWidth = 60

// tableRows is the number of results that are kept before they are printed.
const tableRows = 1000

func (o *output) add(res Result) {
	if o.counts == nil {
		o.counts = make(map[Outcome]int)
	}
	o.counts[res.Outcome]++
	o.meter.count(res.Outcome)
	if o.json {
		if err := o.streams.JSON(res, ""); err != nil {
			o.err = err
		}
		return
	}
	if o.table.Len() > tableRows {
		o.flush()
	}
	if o.whole {
		o.rows(&res)
	} else {
		o.row(&res)
	}
	if res.Error != "" {
		name := res.Source
		if name == "" {
			name = "message"
		}
		o.problems = append(o.problems, fmt.Sprintf("%s (%s): %s", name, res.Message, res.Error))
	}
}

func (o *output) row(res *Result) {
	names, values := []string{"WHERE"}, []string{res.Where}
	if o.dry {
		names, values = []string{"VALUE", "HEADERS"}, content(res.Letter)
	}
	for i := range values {
		values[i] = term.Cut(term.Escape(values[i]), contentWidth)
	}
	if o.table.Len() == 0 {
		o.table.Row(slices.Concat([]string{"OUTCOME", "RECORD", "KEY"}, names, []string{"HAD FAILED BY"})...)
	}
	o.table.Row(slices.Concat([]string{string(res.Outcome), res.Source, term.Cut(res.Key, term.KeyWidth)}, values,
		[]string{command.Failure(res.Cause)})...)
}

// rows shows a letter in a row for each of its fields.
func (o *output) rows(res *Result) {
	values := content(res.Letter)
	for _, field := range [][2]string{
		{"outcome", string(res.Outcome)}, {"record", res.Source}, {"key", res.Key}, {"value", values[0]},
		{"headers", values[1]}, {"had failed by", res.Cause},
	} {
		o.table.Row(field[0], term.Escape(field[1]))
	}
}

// content returns the value and the headers of a letter as text.
func content(l *kafka.DeadLetter) []string {
	if l == nil {
		return []string{"", ""}
	}
	value := term.Text(l.Value)
	switch {
	case l.ValueOmitted > 0:
		value = fmt.Sprintf("omitted, %d bytes", l.ValueOmitted)
	case len(l.Undecoded) > 0:
		value = term.Text(l.Undecoded)
	}
	var headers []string
	for _, h := range l.Headers {
		headers = append(headers, h.Key+"="+term.Text(h.Value))
	}
	return []string{value, strings.Join(headers, " ")}
}

// flush prints the collected rows and problems.
func (o *output) flush() {
	defer o.meter.pause()()
	if _, err := fmt.Fprint(o.streams.Out, o.table.String()); err != nil {
		o.err = err
	}
	for _, p := range o.problems {
		o.streams.Sayf("  %s\n", term.Escape(p))
	}
	o.table, o.problems = term.Table{}, nil
}

// finish prints the remaining rows and the summary. It returns an error if letters could not be redriven.
func (o *output) finish(passed Passed, err error) error {
	o.meter.stop()
	o.flush()
	if err == nil || len(o.counts) > 0 {
		o.streams.Sayf("idemsk redrive: %s\n", o.summary(passed))
	}
	switch {
	case err != nil:
		return err
	case o.err != nil:
		return o.err
	case o.counts[NotRedriven]+o.counts[NotDeadLetter] > 0:
		return command.ErrReported
	}
	return nil
}

// countsText returns the counts that are not zero.
func countsText(counts map[Outcome]int) (parts []string) {
	for _, outcome := range []Outcome{
		Redriven, Discarded, WouldRedrive, Duplicate, NotRedriven, NotDeadLetter,
	} {
		if n := counts[outcome]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", term.Count(n), outcome))
		}
	}
	return parts
}

func (o *output) summary(passed Passed) string {
	parts := countsText(o.counts)
	for _, p := range []struct {
		n    int
		what string
	}{
		{passed.Key, "with another key"}, {passed.Function, "of another function (--of-function)"},
		{passed.Cluster, "of another cluster (--of-cluster)"},
	} {
		if p.n > 0 {
			parts = append(parts, term.Count(p.n)+" "+p.what)
		}
	}
	if len(parts) == 0 {
		return "there are no dead letters"
	}
	return strings.Join(parts, ", ")
}

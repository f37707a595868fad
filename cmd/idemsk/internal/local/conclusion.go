package local

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/proof"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/kafka"
)

// maxShown bounds the lists of a conclusion, and causeWidth what is shown of a cause.
const (
	maxShown   = 10
	causeWidth = 80
)

// conclusion says what a run proves. without is the same run without idemsk, if there was one.
func (r *Report) conclusion(without *Report) string {
	p := r.Proof
	var b strings.Builder
	b.WriteString(letterLines(p.Letters))
	b.WriteString(repeatLines(p.Repeats))
	if !p.OK() {
		b.WriteString(list("PROBLEMS", p.Problems))
		b.WriteString("Not proven: " + term.Plural(len(p.Problems), "check failed.", "checks failed.") + "\n")
		return b.String()
	}
	text := fmt.Sprintf("%s, delivered %s times", term.Plural(p.Records, "record", "records"), term.Count(r.Delivered))
	if n := len(r.Kills); n > 0 {
		text += " to processes of which " + term.Count(n) + " " + was(n) + " killed"
	}
	text += ", booked " + term.Plural(p.Payments, "payment", "payments")
	if again := keys(p.Repeats); again > 0 {
		text += fmt.Sprintf(": %s exactly once each, and %s again, for a kill that fell between the booking and its completion. "+
			"Plain mode can't prevent that: each is named above, and the ledger is off by these alone", term.Count(p.Payments-again), term.Count(again))
	} else {
		text += " exactly once each, to the cent"
	}
	if n := len(p.Letters); n > 0 {
		text += "; what can't be booked is in " + term.Plural(n, "dead letter", "dead letters") + ", and nothing is lost"
	}
	b.WriteString(term.Wrap(text+without.harm()+".", width) + "\n")
	if p.Audited && len(p.Repeats) == 0 {
		b.WriteString("\n" + term.Wrap("No kill fell between a booking and its completion this time. Plain mode can't prevent that such a payment "+
			"is booked again when the lease is over.", width) + "\n")
	}
	return b.String()
}

// width is that of the text below the tables.
const width = 110

func was(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

// harm says what came of a run without idemsk.
func (r *Report) harm() string {
	switch {
	case r == nil:
		return ""
	case len(r.Proof.Off) == 0:
		return "; without idemsk the ledger would be right too: nothing in this run came twice that it could book twice"
	}
	return fmt.Sprintf("; without idemsk the ledger would be off by %s on %s",
		proof.Amounts(proof.Off(r.Proof.Off)), term.Plural(len(r.Proof.Off), "account", "accounts"))
}

// keys is how many payments were booked again.
func keys(repeats []proof.Repeat) int {
	seen := make(map[string]bool)
	for i := range repeats {
		seen[repeats[i].Key] = true
	}
	return len(seen)
}

func letterLines(letters []kafka.DeadLetter) string {
	if len(letters) == 0 {
		return ""
	}
	letters = slices.SortedFunc(slices.Values(letters), func(a, b kafka.DeadLetter) int { return strings.Compare(a.Source(), b.Source()) })
	var t term.Table
	for i := range letters[:min(len(letters), maxShown)] {
		l := &letters[i]
		t.Row("  "+term.Escape(l.Source()), cmp.Or(l.Error.Code, "-"), term.Cut(term.Escape(l.Error.Message), causeWidth))
	}
	return "Dead letters:\n" + t.String() + more(len(letters)) + "\n"
}

func repeatLines(repeats []proof.Repeat) string {
	if len(repeats) == 0 {
		return ""
	}
	var t term.Table
	for i := range repeats[:min(len(repeats), maxShown)] {
		r := &repeats[i]
		t.Row("  "+term.Escape(r.Key), fmt.Sprintf("attempt %d", r.Attempt), term.Money(r.Amount),
			"killed "+r.Kill.At.Format(time.TimeOnly+".000"), "in "+term.Escape(r.Kill.Batch))
	}
	return "Booked, and booked again because the process was killed before the completion:\n" + t.String() + more(len(repeats)) + "\n"
}

func list(title string, lines []string) string {
	var b strings.Builder
	b.WriteString(title + "\n")
	for _, line := range lines[:min(len(lines), maxShown)] {
		b.WriteString("  " + term.Escape(line) + "\n")
	}
	return b.String() + more(len(lines)) + "\n"
}

func more(n int) string {
	if n <= maxShown {
		return ""
	}
	return fmt.Sprintf("  and %s more\n", term.Count(n-maxShown))
}

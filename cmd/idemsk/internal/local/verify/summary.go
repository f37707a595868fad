package verify

import (
	"fmt"
	"strings"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// maxShown is the maximum number of entries of a list in a summary.
const (
	maxShown  = 10
	timeOfDay = time.TimeOnly + ".000"
)

// Summary describes the result in words. delivered is the number of deliveries of records, kills the number
// of killed processes. without is the result of the same records without idemsk, or nil.
func (r *Result) Summary(delivered, kills int, without *Result) string {
	var b strings.Builder
	b.WriteString(Letters(r.Letters))
	b.WriteString(r.repeated())
	if !r.OK() {
		b.WriteString("PROBLEMS\n")
		for _, problem := range r.Problems[:min(len(r.Problems), maxShown)] {
			b.WriteString("  " + term.Escape(problem) + "\n")
		}
		b.WriteString(more(len(r.Problems)) + "\nNot proven: " +
			term.Plural(len(r.Problems), "check failed.", "checks failed.") + "\n")
		return b.String()
	}
	text := fmt.Sprintf("%s, delivered %s times", term.Plural(r.Records, "record", "records"),
		term.Count(delivered))
	if kills > 0 {
		text += " to processes of which " + term.Plural(kills, "was", "were") + " killed"
	}
	text += ", booked " + term.Plural(r.Payments, "payment", "payments")
	if again := r.paymentsRepeated(); again > 0 {
		text += fmt.Sprintf(": %s exactly once each, and %s again, because no completion was stored after the booking. "+
			"Plain mode can't prevent that: each is named above, and the ledger is off by these alone",
			term.Count(r.Payments-again), term.Count(again))
	} else {
		text += " exactly once each, to the cent"
	}
	if n := len(r.Letters); n > 0 {
		text += "; what can't be booked is in " + term.Plural(n, "dead letter", "dead letters") +
			", and nothing is lost"
	}
	b.WriteString(term.Paragraph(text + without.comparison() + "."))
	if r.Audited && len(r.Repeats) == 0 {
		b.WriteString("\n" + term.Paragraph(
			"No kill fell between a booking and its completion this time. Plain mode can't prevent that such a payment "+
				"is booked again when the lease is over."))
	}
	return b.String()
}

// comparison describes the result without idemsk.
func (r *Result) comparison() string {
	switch {
	case r == nil:
		return ""
	case len(r.Off) == 0:
		return "; without idemsk the ledger would be right too: this run delivered no payment twice"
	}
	return fmt.Sprintf("; without idemsk the ledger would be off by %s on %s", Amounts(r.OffBy()),
		term.Plural(len(r.Off), "account", "accounts"))
}

// paymentsRepeated returns the number of payments that were booked more than once.
func (r *Result) paymentsRepeated() int {
	keys := make(map[string]bool)
	for i := range r.Repeats {
		keys[r.Repeats[i].Key] = true
	}
	return len(keys)
}

func (r *Result) repeated() string {
	return table("Booked, and booked again because the completion was not stored", r.Repeats,
		func(r *Repeat) []string {
			return []string{r.Key, fmt.Sprintf("attempt %d", r.Attempt), term.Money(r.Amount),
				r.cause()}
		})
}

// table lists the first maxShown rows under a title; "" if there are none.
func table[T any](title string, rows []T, cells func(*T) []string) string {
	if len(rows) == 0 {
		return ""
	}
	var t term.Table
	for i := range rows[:min(len(rows), maxShown)] {
		row := cells(&rows[i])
		row[0] = "  " + row[0]
		t.Row(row...)
	}
	return title + ":\n" + t.String() + more(len(rows)) + "\n"
}

func more(n int) string {
	if n <= maxShown {
		return ""
	}
	return fmt.Sprintf("  and %s more\n", term.Count(n-maxShown))
}

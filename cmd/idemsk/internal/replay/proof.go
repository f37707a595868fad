package replay

import (
	"fmt"
	"strings"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/proof"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// proof says in a sentence what the run shows.
func (r *Report) proof() string {
	w := &r.With
	if !r.OK {
		return "Not proven: " + term.Plural(len(r.Problems), "thing is not as it must be.", "things are not as they must be.")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s records, delivered %s times", term.Count(r.Places), term.Count(w.Delivered))
	if w.ColdStarts > 1 {
		fmt.Fprintf(&b, " to %s", term.Plural(w.ColdStarts, "process", "processes"))
	}
	if w.Killed > 0 {
		fmt.Fprintf(&b, " of which %d were killed just before a payment", w.Killed)
	}
	fmt.Fprintf(&b, ", booked %s exactly once each, to the cent", term.Plural(r.Payments, "payment", "payments"))
	if n := len(w.DeadLetters); n > 0 {
		fmt.Fprintf(&b, "; what can't be booked is in %s, and nothing is lost", term.Plural(n, "dead letter", "dead letters"))
	}
	if r.Without != nil {
		b.WriteString("; " + r.Without.harm())
	}
	return b.String() + "."
}

// harm says what came of a pass without idemsk.
func (p *Pass) harm() string {
	if len(p.Off) == 0 {
		return "without idemsk the ledger would be right too: nothing in this run came twice that it could book twice"
	}
	return fmt.Sprintf("without idemsk the ledger would be off by %s on %s",
		proof.Amounts(proof.Off(p.Off)), term.Plural(len(p.Off), "account", "accounts"))
}

package replay

import (
	"context"
	"slices"
	"strings"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/proof"
	"github.com/idemsk/idemsk/kafka"
)

// audit compares what a pass left in tables and queue with what must be there.
func (p *pass) audit(ctx context.Context, want *expected, env map[string]string) error {
	balances, err := p.site.Balances(ctx)
	if err != nil {
		return err
	}
	letters, err := p.site.Letters(ctx)
	if err != nil {
		return err
	}
	p.close(balances, letters, want)
	for _, off := range p.report.Off {
		p.problemf("the ledger is off: %s has %d, must have %d (minor units)", off.Account, off.Found, off.Expected)
	}
	if n := p.report.Torn; n > 0 && len(p.report.Off) > 0 {
		p.problemf("a process died by itself between %d effects and their completions: in plain mode they are done again", n)
	}
	if n := p.report.Killed; n < len(want.kills) {
		p.problemf("%d of %d kills could not be placed before an effect", len(want.kills)-n, len(want.kills))
	}
	if env[varStore] == storeNone {
		return nil // nothing is remembered
	}
	statuses, err := p.site.Statuses(ctx)
	if err != nil {
		return err
	}
	p.lost(proof.Lost(want.ledger.Places(), statuses, letters))
	if n := p.report.Outcomes.Executed + p.report.ExecutedUnreported; n != want.ledger.Booked() {
		p.problemf("%d records were executed, but %d payments are to be booked", n, want.ledger.Booked())
	}
	return nil
}

// close fills in what is known at the end of a pass.
func (p *pass) close(balances map[string]int64, letters []kafka.DeadLetter, want *expected) {
	r := &p.report
	kills, counts := p.gate.Kills(), p.gate.Counts()
	r.Killed, r.Torn, r.ColdStarts = kills.Done, kills.Torn, p.function.Starts()
	r.Requests = counts.Requests
	r.RequestsPerFresh = ratio(counts.FreshRequests, counts.FreshKeys)
	r.RequestsPerDuplicate = ratio(counts.KnownRequests, counts.KnownKeys)
	r.Ledger = proof.Totals(balances)
	r.Off = proof.Differences(want.ledger.Balances(), balances)
	for i := range letters {
		l := &letters[i]
		r.DeadLetters = append(r.DeadLetters, DeadLetter{
			Source: l.Source(), Key: l.IdempotencyKey, Attempts: l.Attempts, Code: l.Error.Code, Cause: l.Error.Message,
		})
	}
	slices.SortFunc(r.DeadLetters, func(a, b DeadLetter) int { return strings.Compare(a.Source, b.Source) })
}

// ratio is n/d; 0 if there is nothing to divide by.
func ratio(n, d int) float64 {
	if d == 0 {
		return 0
	}
	return float64(n) / float64(d)
}

func (p *pass) lost(how []string) {
	p.report.Lost += len(how)
	p.problems = append(p.problems, how...)
}

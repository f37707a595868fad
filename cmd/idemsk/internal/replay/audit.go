package replay

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/expect"
	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/lambda/msk"
)

// audit compares what a pass left in tables and queue with what must be there.
func (p *pass) audit(ctx context.Context, want *expected, env map[string]string) error {
	balances, err := p.site.balances(ctx)
	if err != nil {
		return err
	}
	letters, err := p.site.letters(ctx)
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
	statuses, err := p.site.statuses(ctx)
	if err != nil {
		return err
	}
	p.checkPlaces(want.ledger.Places(), statuses, letters)
	if n := p.report.Outcomes.Executed + p.report.ExecutedUnreported; n != want.ledger.Booked() {
		p.problemf("%d records were executed, but %d payments are to be booked", n, want.ledger.Booked())
	}
	return nil
}

// close fills in what is known at the end of a pass.
func (p *pass) close(balances map[string]int64, letters []msk.DeadLetter, want *expected) {
	r := &p.report
	kills, counts := p.gate.Kills(), p.gate.Counts()
	r.Killed, r.Torn, r.ColdStarts = kills.Done, kills.Torn, p.function.Starts()
	r.Requests = counts.Requests
	r.RequestsPerFresh = ratio(counts.FreshRequests, counts.FreshKeys)
	r.RequestsPerDuplicate = ratio(counts.KnownRequests, counts.KnownKeys)
	r.Ledger = totals(balances)
	r.Off = differences(want.ledger.Balances(), balances)
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

// totals adds up accounts by currency.
func totals(balances map[string]int64) map[string]int64 {
	sums := make(map[string]int64)
	for account, balance := range balances {
		sums[currencyOf(account)] += balance
	}
	return sums
}

func currencyOf(account string) string { return account[strings.LastIndexByte(account, '/')+1:] }

// differences are the accounts that do not have what they must have.
func differences(want, got map[string]int64) []Difference {
	var off []Difference
	for account, balance := range want {
		if got[account] != balance {
			off = append(off, Difference{Account: account, Expected: balance, Found: got[account]})
		}
	}
	for account, balance := range got {
		if _, known := want[account]; !known && balance != 0 {
			off = append(off, Difference{Account: account, Found: balance})
		}
	}
	slices.SortFunc(off, func(a, b Difference) int { return cmp.Compare(a.Account, b.Account) })
	return off
}

// checkPlaces checks that every record that was delivered has ended as it must: none is lost.
func (p *pass) checkPlaces(places []expect.Place, statuses map[string]idem.Status, letters []msk.DeadLetter) {
	dead := make(map[string]bool, len(letters))
	for i := range letters {
		dead[letters[i].IdempotencyKey] = true
	}
	for _, place := range places {
		want := idem.StatusFailed
		if place.Fate == expect.Booked {
			want = idem.StatusCompleted
		}
		status := statuses[place.Key]
		switch {
		case status == want && (want == idem.StatusCompleted || dead[place.Key]):
		case status == want:
			p.lost(place, "its key is FAILED, but no dead letter was sent")
		case status == "":
			p.lost(place, "there is no item of its key")
		default:
			p.lost(place, fmt.Sprintf("its key is %s, must be %s", status, want))
		}
	}
}

func (p *pass) lost(place expect.Place, how string) {
	p.report.Lost++
	p.problemf("record %s is lost or unsettled: %s (key %q)", place.Source, how, place.Key)
}

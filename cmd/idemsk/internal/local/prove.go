package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/expect"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/proof"
	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
)

// Proof holds the ledger of this project's function against the records that the run delivered.
type Proof struct {
	Records  int              // different ones
	Payments int              // to be booked
	Expected map[string]int64 // the ledger, by currency, in minor units
	Found    map[string]int64
	Off      []proof.Difference
	Letters  []kafka.DeadLetter
	// Audited says that each booking is accounted for, because processes were killed. Repeats are those that were done again,
	// each with the kill that fell between it and its completion.
	Audited  bool
	Repeats  []proof.Repeat
	Problems []string // why the run proves nothing; of an unprotected one, nothing is asked
}

// OK reports whether all is as it must be.
func (p *Proof) OK() bool { return len(p.Problems) == 0 }

// checkProof refuses what would make a run prove nothing.
func (o *Options) checkProof() error {
	if !o.Prove {
		return nil
	}
	var errs []error
	check := func(ok bool, what string) {
		if !ok {
			errs = append(errs, errors.New(what))
		}
	}
	c := &o.ESM
	kind := o.storeKind()
	check(o.UntilDrained || len(c.Events) > 0, "--prove needs --until-drained: the expected ledger is known only when everything is delivered")
	check(kind != StoreNone, "--prove needs a --store: that is where it looks for the ledger")
	check(kind != storeRedis || o.Faults.Kill == 0, "--prove and --kill don't go together on Redis: a payment that is booked again there could not be "+
		"accounted for, as there is no audit")
	check(o.Function != "", "--prove needs --function: the ledger of a function behind an endpoint is not in reach")
	check(c.FilterCriteria == "" && c.OnFailure == "" && c.MaximumRecordAge == esm.Infinite,
		"--prove allows nothing that takes records away: no --filter-criteria, --on-failure, --maximum-record-age")
	_, err := o.rules()
	return errors.Join(append(errs, err)...)
}

// rules are the settings of the function that decide what must come of a record.
func (o *Options) rules() (expect.Rules, error) { return expect.ReadRules(o.FunctionName, o.Env) }

// audited reports whether the function keeps an audit: where processes are killed, a ledger alone can't tell a payment that
// plain mode (IDEMSK_LEDGER=plain) could not help to book again from one that it should not have. Where a booking commits with
// its completion none may be booked again, and the ledger tells.
func (o *Options) audited() bool {
	kind := o.storeKind()
	inDynamoDB := kind == StoreFake || kind == storeDynamoDB
	return o.Prove && o.Faults.Kill > 0 && !o.Unprotected && inDynamoDB && o.variable("IDEMSK_LEDGER") == "plain"
}

// variable is the last value that Env has for a variable.
func (o *Options) variable(name string) (value string) {
	for _, entry := range o.Env {
		if n, v, _ := strings.Cut(entry, "="); n == name {
			value = v
		}
	}
	return value
}

// prove reads everything and compares.
func (r *run) prove(ctx context.Context, report *Report, messages []string) (*Proof, error) {
	rules, err := r.o.rules()
	if err != nil {
		return nil, err
	}
	want := expect.New(rules)
	if err := r.reread(ctx, report.Partitions, want.Add); err != nil {
		return nil, err
	}
	balances := r.store.Balances
	if r.o.Unprotected { // the function without idemsk has its ledger in DynamoDB
		balances = r.store.Site.Balances
	}
	found, err := balances(ctx)
	if err != nil {
		return nil, err
	}
	letters, err := proof.ParseLetters(messages)
	if err != nil {
		return nil, err
	}
	p := &Proof{
		Records: len(want.Places()), Payments: want.Booked(), Expected: proof.Totals(want.Balances()), Found: proof.Totals(found),
		Off: proof.Differences(want.Balances(), found), Letters: letters, Audited: r.o.audited(),
	}
	if r.o.Unprotected {
		return p, nil
	}
	return p, r.judge(ctx, p, want, found, report)
}

// judge fills in what is wrong.
func (r *run) judge(ctx context.Context, p *Proof, want *expect.Ledger, found map[string]int64, report *Report) error {
	accounted := maps.Clone(want.Balances())
	var unaccounted []string
	if p.Audited {
		executions, err := r.store.Executions(ctx)
		if err != nil {
			return err
		}
		p.Repeats, unaccounted = proof.Bookings(want.Places(), executions, killsOf(report.Kills), idem.Defaults().CommitWindow)
		for i := range p.Repeats {
			accounted[p.Repeats[i].Account] += p.Repeats[i].Amount
		}
	}
	for _, off := range proof.Differences(accounted, found) {
		p.Problems = append(p.Problems, fmt.Sprintf("the ledger is wrong: %s has %d, want %d (minor units)", off.Account, off.Found, off.Expected))
	}
	p.Problems = append(p.Problems, unaccounted...)
	p.Problems = append(p.Problems, lost(&report.Counts)...)
	if lag := report.Lag(); lag > 0 {
		p.Problems = append(p.Problems, fmt.Sprintf("%d records are not committed: the run ended before everything was delivered", lag))
	}
	statuses, err := r.store.Statuses(ctx)
	if err != nil {
		return err
	}
	p.Problems = append(p.Problems, proof.Lost(want.Places(), statuses, p.Letters)...)
	return nil
}

func killsOf(kills []Kill) []proof.Kill {
	all := make([]proof.Kill, 0, len(kills))
	for i := range kills {
		if k := &kills[i]; k.RequestID != "" { // it was not killed while it started
			all = append(all, proof.Kill{RequestID: k.RequestID, Batch: k.Batch, At: k.At})
		}
	}
	return slices.Clip(all)
}

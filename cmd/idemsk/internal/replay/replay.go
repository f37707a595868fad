// Package replay plays MSK events to a function as an event source mapping would, kills its process now and then, and holds
// the payment ledger that comes of it against the one that must.
package replay

import (
	"context"
	"errors"
	"maps"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/expect"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/proof"
)

// Run plays everything that the options ask for. A ledger that is off, and everything else that the run was to show and did
// not, is in the report; the error says why there is none: ErrOptions (wrapped), or what went wrong. Nothing that Run
// started is left when it returns, also when the context ends.
func Run(ctx context.Context, o Options) (r *Report, err error) {
	env, err := o.validate()
	if err != nil {
		return nil, err
	}
	if o.Stream.Records == 0 {
		o.Kills = 0
	}
	rules, err := expect.ReadRules(functionName, variables(env))
	if err != nil {
		return nil, err
	}
	want, err := expectation(ctx, &o, rules)
	if err != nil {
		return nil, err
	}
	s, err := openStore(ctx, o.Store)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	with, err := playPass(ctx, &o, s, env, want)
	if err != nil {
		return nil, err
	}
	r = newReport(&o, s, want, with)
	r.Batching = env[varBatching]
	if o.Compare {
		unprotected := maps.Clone(env)
		unprotected[varStore] = storeNone
		without, err := playPass(ctx, &o, s, unprotected, want)
		if err != nil {
			return nil, err
		}
		r.Without = &without.report
	}
	r.Proof = r.proof()
	return r, nil
}

func newReport(o *Options, s *store, want *expected, with *pass) *Report {
	return &Report{
		OK: len(with.problems) == 0, Problems: with.problems,
		Seed: o.Stream.Seed, Function: o.Function, Store: s.name, Files: len(o.Files),
		Records: o.Stream.Records, Partitions: o.Stream.Partitions, BatchSize: o.Stream.BatchSize, Duplicates: o.Duplicates,
		Payments: want.ledger.Booked(), Places: len(want.ledger.Places()), Expected: proof.Totals(want.ledger.Balances()),
		With: with.report,
	}
}

package local

import (
	"context"
	"fmt"
	"os"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/oracle"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/verify"
	"github.com/idemsk/idemsk/kafka"
)

// checkProve refuses options with which --prove would prove nothing.
func (o *Options) checkProve(check checkFunc) {
	if !o.Prove {
		return
	}
	c := &o.ESM
	kind := o.storeKind()
	check(o.UntilDrained || len(c.Events) > 0, "--prove needs --until-drained: the expected ledger is known only when everything is delivered")
	check(kind != StoreNone, "--prove needs a --store: it reads the ledger there")
	check(kind != storeRedis || o.Faults.Kill == 0, "--prove and --kill don't go together on Redis: there is no audit that could explain repeated bookings")
	check(o.Function != "", "--prove needs --function: it can't read the ledger of a function behind an endpoint")
	check(c.FilterCriteria == "" && c.OnFailure == "" && c.MaximumRecordAge == esm.Infinite,
		"--prove allows no option that drops records: no --filter-criteria, --on-failure, --maximum-record-age")
	_, err := o.rules()
	check(err == nil, "%w", err)
}

// rules returns the settings of the function that decide the outcome of a record.
func (o *Options) rules() (oracle.Rules, error) { return oracle.ReadRules(o.FunctionName, o.Env) }

// audited reports whether the function keeps an audit. In plain mode (IDEMSK_LEDGER=plain) a kill can repeat a booking; the audit
// tells these bookings from wrong ones. If a booking commits with its completion, the ledger alone shows wrong bookings.
func (o *Options) audited() bool {
	kind := o.storeKind()
	inDynamoDB := kind == StoreFake || kind == storeDynamoDB
	return o.Prove && o.Faults.Kill > 0 && !o.Unprotected && inDynamoDB && o.variable("IDEMSK_LEDGER") == "plain"
}

// verify compares what the function has written with what the oracle expects of the records of the run.
func (r *run) verify(ctx context.Context, report *Report, letters []kafka.DeadLetter) (*verify.Result, error) {
	rules, err := r.o.rules()
	if err != nil {
		return nil, err
	}
	want := oracle.New(rules)
	if err := r.reread(ctx, report.Partitions, want.Add); err != nil {
		return nil, err
	}
	found, err := r.store.Read(ctx)
	if err != nil {
		return nil, err
	}
	result := verify.Run(want, found, letters, report.Kills)
	problems := lost(&report.Counts)
	if lag := report.Lag(); lag > 0 {
		problems = append(problems, fmt.Sprintf("%d records are not committed: the run ended before everything was delivered", lag))
	}
	result.Problems = append(problems, result.Problems...)
	return result, nil
}

// doubles reads the bookings of the function.
func (r *run) doubles(kills []verify.Kill) (*verify.Doubles, error) {
	rules, err := r.o.rules()
	if err != nil {
		return nil, err
	}
	file, err := os.Open(r.o.Bookings)
	if err != nil {
		return nil, fmt.Errorf("the function's bookings: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	doubles, err := verify.ReadDoubles(file, kills, rules.CommitWindow)
	if err != nil {
		return nil, fmt.Errorf("the function's bookings, %s: %w", r.o.Bookings, err)
	}
	return doubles, nil
}

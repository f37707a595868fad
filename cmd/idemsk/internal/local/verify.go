package local

import (
	"context"
	"fmt"
	"os"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/oracle"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/verify"
	"github.com/idemsk/idemsk/kafka"
)

// checkProve refuses options with which --prove would prove nothing.
func (o *Options) checkProve(check checkFunc) {
	if !o.Prove {
		return
	}
	check(o.UntilDrained || len(o.ESM.Events) > 0,
		"--prove needs --until-drained: the expected ledger is known only when everything is delivered")
	o.checkLedger(check)
}

// checkLedger refuses options with which the ledger can't be verified.
func (o *Options) checkLedger(check checkFunc) {
	c := &o.ESM
	kind := o.storeKind()
	check(kind != StoreNone, "--prove needs a --store: it reads the ledger there")
	check(kind != storeRedis || o.Faults.Kill == 0,
		"--prove and --kill don't go together on Redis: there is no audit that could explain repeated bookings")
	check(o.Function != "", "--prove needs --function: it can't read the ledger of a function behind an endpoint")
	check(c.FilterCriteria == "" && c.OnFailure == "" && c.MaximumRecordAge == esm.Infinite,
		"--prove allows no option that drops records: no --filter-criteria, --on-failure, --maximum-record-age")
	_, err := o.rules()
	check(err == nil, "%w", err)
}

// rules returns the settings of the function that decide the outcome of a record.
func (o *Options) rules() (oracle.Rules, error) { return oracle.ReadRules(o.FunctionName, o.Env) }

// audited reports whether the function keeps an audit. In plain mode (IDEMSK_LEDGER=plain) a kill can repeat
// a booking; the audit tells these bookings from wrong ones. If a booking commits with its completion, the
// ledger alone shows wrong bookings.
func (o *Options) audited() bool {
	kind := o.storeKind()
	inDynamoDB := kind == StoreFake || kind == storeDynamoDB
	// the page has buttons that kill
	kills := o.Prove && o.Faults.Kill > 0 || o.UI.Addr != "" && o.Example && !o.processes()
	return kills && !o.Unprotected && inDynamoDB && o.variable("IDEMSK_LEDGER") == "plain"
}

// prover computes what must be in the ledger from the records of the run, and compares it with what the
// function has written. It reads each record of the topic once.
type prover struct {
	run  *run
	want *oracle.Ledger
	next map[int32]int64 // the next offset to read, by partition
}

func newProver(r *run) (*prover, error) {
	rules, err := r.o.rules()
	if err != nil {
		return nil, err
	}
	return &prover{run: r, want: oracle.New(rules), next: make(map[int32]int64)}, nil
}

// verify compares the ledger with the records. It reads the ledger first: what is in it is from records that
// it reads then.
func (p *prover) verify(ctx context.Context, letters []kafka.DeadLetter, counts *Counts) (*verify.Result,
	error) {
	found, err := p.run.store.Read(ctx)
	if err != nil {
		return nil, err
	}
	partitions := p.run.source.Partitions()
	for i := range partitions {
		partitions[i].Begin = max(partitions[i].Begin, p.next[partitions[i].Partition])
	}
	if err := p.run.reread(ctx, partitions, p.want.Add); err != nil {
		return nil, err
	}
	for i := range partitions {
		p.next[partitions[i].Partition] = partitions[i].End
	}
	return verify.Run(p.want, found, letters, counts.Kills, counts.Outcomes.Fenced+counts.Outcomes.CompletionFailed), nil
}

// verify compares what the function has written with what the oracle expects of the records of the run.
func (r *run) verify(ctx context.Context, report *Report) (*verify.Result, error) {
	p, err := newProver(r)
	if err != nil {
		return nil, err
	}
	result, err := p.verify(ctx, report.Letters, &report.Counts)
	if err != nil {
		return nil, err
	}
	problems := lost(&report.Counts)
	if lag := report.Lag(); lag > 0 {
		problems = append(problems, fmt.Sprintf(
			"%d records are not committed: the run ended before everything was delivered", lag))
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

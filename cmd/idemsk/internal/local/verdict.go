package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/console"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/testenv"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/verify"
)

// Bounds of the verdict of a page.
const (
	maxVerified    = 100_000 // records, because the prover keeps something of each
	maxVerdictRows = 100     // accounts and problems
	verdictEvery   = time.Second
	verdictShare   = 40 // a verification takes at most a 40th of the time
	withIdemsk     = "with idemsk"
	withoutIdemsk  = "without idemsk"
	onlyTheExample = "only the ledger of the example function is known"
)

// verdict verifies the ledger while the run goes on. It does nothing until a page asks for it.
type verdict struct {
	run *run
	why string // why there is none

	mu     sync.Mutex
	prover *prover
	last   console.Side
	seen   console.Side  // what the last verification found
	fresh  time.Time     // until then last is shown
	ended  *console.Side // the result of the run
}

func newVerdict(r *run) *verdict {
	v := &verdict{run: r}
	if !r.o.Example {
		v.why = onlyTheExample
	}
	r.o.checkLedger(func(ok bool, format string, args ...any) {
		if !ok && v.why == "" {
			v.why = fmt.Errorf(format, args...).Error()
		}
	})
	return v
}

// side returns the ledger of the run as it is now, or was a moment ago.
func (v *verdict) side(ctx context.Context) (console.Side, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	begun := time.Now()
	switch {
	case v.ended != nil:
		return *v.ended, nil
	case begun.Before(v.fresh):
		return v.last, nil
	}
	if err := v.verify(ctx); err != nil {
		return console.Side{}, err
	}
	v.fresh = time.Now().Add(max(verdictEvery, verdictShare*time.Since(begun)))
	return v.last, nil
}

// verify compares the ledger with the records so far. A difference is a problem only if nothing was open
// meanwhile, and if it was there before: the offsets of a consumer group are those of a moment ago.
func (v *verdict) verify(ctx context.Context) (err error) {
	r := v.run
	before, counts := r.source.Partitions(), r.tally.snapshot()
	read := 0
	for i := range before {
		read += int(before[i].End - before[i].Begin)
	}
	if read > maxVerified {
		return fmt.Errorf("the page verifies the ledger of %d records at most; --prove verifies all of them at the end", maxVerified)
	}
	if v.prover == nil {
		if v.prover, err = newProver(r); err != nil {
			return err
		}
	}
	letters, err := testenv.ParseLetters(r.store.queues.Bodies(r.store.Queue))
	if err != nil {
		return err
	}
	result, err := v.prover.verify(ctx, letters, &counts)
	if err != nil {
		return err
	}
	after := r.source.Partitions()
	open, flight := sums(after)
	seen := v.seen
	v.seen = r.sideOf(result, &counts)
	v.last = v.seen
	changed := !slices.Equal(before, after) || r.tally.snapshot().Invocations != counts.Invocations ||
		v.seen.State == console.SideWrong && !reflect.DeepEqual(seen, v.seen)
	if v.last.Open = open; open > 0 || flight > 0 || changed {
		v.last.State, v.last.Problems, v.last.ProblemsAll = console.SideDelivering, []string{}, 0
	}
	return nil
}

// end sets the result of the run.
func (v *verdict) end(report *Report) {
	if report.Verified == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	side := v.run.sideOf(report.Verified, &report.Counts)
	side.Open = report.Lag()
	v.ended = &side
}

// sideOf describes a result. Without idemsk there are no keys to settle: the balances alone count.
func (r *run) sideOf(v *verify.Result, c *Counts) console.Side {
	out := console.Side{
		Name: withIdemsk, State: console.SideExact, Records: v.Records, Payments: v.Payments,
		Delivered: c.Delivered, Kills: len(c.Kills),
		Repeats: len(v.Repeats), Sums: []console.Sum{}, Off: []console.Balance{}, OffAll: len(v.Off),
		Problems: []string{},
	}
	wrong := !v.OK()
	if r.o.Unprotected {
		out.Name, wrong = withoutIdemsk, len(v.Off) > 0
	} else {
		out.Problems, out.ProblemsAll = append(out.Problems,
			v.Problems[:min(len(v.Problems), maxVerdictRows)]...), len(v.Problems)
	}
	if wrong {
		out.State = console.SideWrong
	}
	off, currencies := v.OffBy(), maps.Clone(v.Expected)
	maps.Copy(currencies, v.Found)
	for _, currency := range slices.Sorted(maps.Keys(currencies)) {
		out.Sums = append(out.Sums, console.Sum{Currency: currency, Expected: v.Expected[currency],
			Found: v.Found[currency], Off: off[currency]})
	}
	for _, d := range v.Off[:min(len(v.Off), maxVerdictRows)] {
		out.Off = append(out.Off, console.Balance(d))
	}
	return out
}

// Verdict implements console.Source.
func (p *page) Verdict(ctx context.Context) (console.Verdict, error) {
	out := console.Verdict{Why: p.verdict.why, Sides: append([]console.Side{}, p.before...)}
	if out.Why != "" {
		return out, nil
	}
	side, err := p.verdict.side(ctx)
	if err != nil {
		return out, errors.Join(errors.New("the ledger can't be verified now"), err)
	}
	out.Sides = append(out.Sides, side)
	return out, nil
}

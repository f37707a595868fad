package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/expect"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/gate"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/proof"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/internal/runtimeapi"
)

// pass is one play of everything, with idemsk or without.
type pass struct {
	opt       *Options
	protected bool
	site      *proof.Site
	sqsURL    string
	gate      *gate.Gate
	function  *runtimeapi.Function
	tally     tally
	report    Pass
	problems  []string // why the pass proves nothing

	// Of the stream, for the progress line: records of batches that are settled, and kills.
	settled atomic.Int64
	files   atomic.Int64
	kills   atomic.Int64
	begun   atomic.Int64 // when the stream began, in Unix ns
}

// playPass plays everything once, on tables of its own, and compares what is in them with what must be.
func playPass(ctx context.Context, o *Options, s *store, env map[string]string, want *expected) (*pass, error) {
	p := &pass{opt: o, protected: env[varStore] != storeNone}
	return p, p.onSite(ctx, s, func() error {
		if err := p.play(ctx, want); err != nil {
			return err
		}
		return p.audit(ctx, want, env)
	}, env)
}

// onSite calls f while tables, gate and function are there.
func (p *pass) onSite(ctx context.Context, s *store, f func() error, env map[string]string) (err error) {
	p.sqsURL = s.sqsURL
	if p.site, err = newSite(ctx, s); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.site.Remove(ctx)) }()
	p.gate, err = gate.Start(gate.Config{
		Upstream: s.upstream, Table: p.site.Table, Ledger: p.site.Ledger, Protected: p.protected,
		Kill: func() { p.kills.Add(1); p.function.Kill() },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.gate.Close()) }()
	if p.function, err = startFunction(ctx, p.opt, p.environment(env), p.tally.line); err != nil {
		return err
	}
	defer p.function.Close(context.WithoutCancel(ctx))
	return f()
}

// environment adds what the harness itself sets.
func (p *pass) environment(env map[string]string) map[string]string {
	all := map[string]string{
		varTable: p.site.Table, varLedger: p.site.Ledger, varLetters: p.site.Queue,
		"AWS_ENDPOINT_URL_DYNAMODB": p.gate.URL(), "AWS_ENDPOINT_URL_SQS": p.sqsURL,
		"AWS_ACCESS_KEY_ID": accessKeyID, "AWS_SECRET_ACCESS_KEY": accessSecret,
	}
	maps.Copy(all, env)
	return all
}

func (p *pass) play(ctx context.Context, want *expected) error {
	if p.opt.Progress != nil {
		stop := p.opt.Progress(p.progress)
		defer stop()
	}
	for _, b := range p.opt.Files {
		if err := p.settle(ctx, b); err != nil {
			return err
		}
		p.files.Add(1)
	}
	delivered, begun := p.report.Delivered, time.Now()
	p.begun.Store(begun.UnixNano())
	p.gate.KillBefore(want.kills)
	if err := p.playStream(ctx); err != nil {
		return err
	}
	p.report.StreamSeconds = time.Since(begun).Seconds()
	if p.opt.Stream.Records > 0 {
		p.report.RecordsPerSecond = float64(p.report.Delivered-delivered) / p.report.StreamSeconds
	}
	return nil
}

func (p *pass) playStream(ctx context.Context) error {
	again := p.opt.Stream.Repeats(p.opt.Duplicates)
	for b, err := range p.opt.Stream.Batches() {
		if err != nil {
			return err
		}
		if err := p.settle(ctx, b); err != nil {
			return err
		}
		p.settled.Add(int64(b.Len()))
		if !again() {
			continue
		}
		p.report.Redelivered += b.Len()
		if err := p.settle(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// retryPause keeps a function that gets nowhere from being asked without a break.
const retryPause = 20 * time.Millisecond

// settle delivers a batch as the event source mapping does, until it is settled: what the function reports again from the
// lowest offset of each partition, everything again after an error or the death of the process.
func (p *pass) settle(ctx context.Context, b *mskevent.Batch) error {
	pending, deliveries := b, 0
	for {
		d, err := p.deliver(ctx, pending)
		if err != nil {
			return err
		}
		if d.next == nil {
			return nil
		}
		if !d.killed {
			deliveries++
		}
		if deliveries >= p.opt.MaxDeliveries {
			p.giveUp(pending, d.why)
			return nil
		}
		if d.next.Len() == pending.Len() && !d.killed {
			if err := pause(ctx, retryPause); err != nil {
				return err
			}
		}
		pending = d.next
	}
}

// giveUp notes a batch that does not come to an end.
func (p *pass) giveUp(pending *mskevent.Batch, why string) {
	text := fmt.Sprintf("%s: given up after %d deliveries (--max-deliveries); %d records from %s@%d on were not settled: %s",
		pending.Name, p.opt.MaxDeliveries, pending.Len(), pending.Partitions[0].ID, pending.Partitions[0].Records[0].Offset, why)
	p.report.GivenUp = append(p.report.GivenUp, text)
	p.problemf("%s", text)
}

func (p *pass) problemf(format string, args ...any) {
	p.problems = append(p.problems, fmt.Sprintf(format, args...))
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// progress is the line that shows how far the pass is. It is called from another goroutine.
func (p *pass) progress() string {
	name := "with idemsk"
	if !p.protected {
		name = "without idemsk"
	}
	begun := p.begun.Load()
	if begun == 0 {
		return fmt.Sprintf("%s: sample events, %d of %d", name, p.files.Load(), len(p.opt.Files))
	}
	n := p.settled.Load()
	rate := float64(n) / max(time.Since(time.Unix(0, begun)).Seconds(), time.Millisecond.Seconds())
	return fmt.Sprintf("%s: %s of %s records, %.0f a second, %s killed",
		name, term.Count(n), term.Count(p.opt.Stream.Records), rate, term.Plural(int(p.kills.Load()), "process", "processes"))
}

// expected is what must come of a run.
type expected struct {
	ledger *expect.Ledger
	kills  []int // before which effects of the stream
}

// expectation works out what must come of the files and the stream.
func expectation(ctx context.Context, o *Options, rules expect.Rules) (*expected, error) {
	want := &expected{ledger: expect.New(rules)}
	for _, b := range o.Files {
		if err := want.ledger.Add(b); err != nil {
			return nil, err
		}
	}
	before := want.ledger.Booked()
	for b, err := range o.Stream.Batches() {
		if err != nil {
			return nil, err
		}
		if err := errors.Join(context.Cause(ctx), want.ledger.Add(b)); err != nil {
			return nil, err
		}
	}
	effects := want.ledger.Booked() - before
	if o.Kills > effects {
		return nil, fmt.Errorf("%w: kills is %d, but the stream has only %d payments to kill before", ErrOptions, o.Kills, effects)
	}
	want.kills = o.Stream.Kills(o.Kills, effects)
	return want, nil
}

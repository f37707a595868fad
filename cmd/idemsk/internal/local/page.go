package local

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/console"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/kafka"
)

// page is the console.Source of a run.
type page struct {
	*recorder

	owner   *run
	title   string
	buttons *buttons
	verdict *verdict
	before  []console.Side // of the runs before this one
	over    atomic.Bool    // no run follows this one
}

// openPage makes the page of the run the one that is served.
func (r *run) openPage() error {
	r.page = &page{recorder: r.recorder, owner: r, title: r.title(), buttons: &buttons{run: r},
		verdict: newVerdict(r), before: r.pages.before}
	r.closers = append(r.closers, func() error { r.page.buttons.close(); return nil })
	return r.pages.show(r.page)
}

// end keeps the result of the run, for the pages that are open.
func (p *page) end(report *Report) {
	p.verdict.end(report)
	if p.verdict.ended != nil {
		p.owner.pages.before = append(slices.Clone(p.before), *p.verdict.ended)
	}
}

// run measures the rate, and serves the buttons, until the context ends.
func (p *page) run(ctx context.Context) {
	done := make(chan struct{})
	go func() { defer close(done); p.buttons.serve(ctx) }()
	defer func() { <-done }()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for last := 0; ; {
		select {
		case <-ticker.C:
			now := p.owner.tally.snapshot().Done
			p.rate(now - last)
			last = now
		case <-ctx.Done():
			return
		}
	}
}

// Run implements console.Source.
func (p *page) Run() console.Run {
	r := p.owner
	c := r.tally.snapshot()
	out := console.Run{
		Title: p.title, Elapsed: time.Since(r.tally.begun).Milliseconds(), Enabled: true,
		LastError: c.LastError,
		Actions:   p.buttons.available(), WhyNoEffect: p.buttons.whyNoEffect(),
		Counts: counts(&c), Partitions: []console.Partition{}, Notice: p.notice(),
	}
	if mapping, ok := r.source.(*esm.ESM); ok {
		out.Enabled = mapping.Enabled()
	}
	for _, s := range r.source.Partitions() {
		out.Partitions = append(out.Partitions, console.Partition{
			Number: s.Partition, Committed: s.Committed, End: s.End, Lag: s.Lag(), InFlight: s.InFlight,
		})
	}
	_, flight := sums(r.source.Partitions())
	if out.Alarms = []console.Alarm{}; !p.over.Load() {
		out.Alarms = p.alarms(&c, out.Enabled, flight)
	}
	if out.Ended = p.over.Load(); out.Ended && p.verdict.ended != nil {
		out.Verdict = &console.Verdict{Sides: p.owner.pages.before}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	out.Rates = append([]int{}, p.rates...)
	out.Keys, out.Invocations = p.keyChanges, p.runChanges
	return out
}

// notice says what the page can't show.
func (p *page) notice() string {
	o := p.owner.o
	switch {
	case o.Unprotected:
		return "This run is without idemsk: there are no keys, and no histories."
	case o.storeKind() != StoreFake || !o.ownStore():
		return "Records and their history are shown with --store fake only: this page observes the DynamoDB in the process of idemsk local."
	case o.processes():
		return "Consumer processes have no invocations. Records and their history are shown."
	}
	return ""
}

func counts(c *Counts) []console.Count {
	all := []console.Count{
		{Name: "done", Value: c.Done}, {Name: "deliveries", Value: c.Delivered},
		{Name: "invocations", Value: c.Invocations},
		{Name: "executed", Value: c.Outcomes.Executed},
		{Name: "replayed", Value: c.Outcomes.Replayed},
		{Name: "taken over", Value: c.Outcomes.Stolen}, {Name: "kills", Value: len(c.Kills)},
		{Name: "redelivered batches", Value: c.Redelivered},
		{Name: "bisected", Value: c.Bisected},
		{Name: "failed invocations", Value: c.OwnFailures(), Bad: true},
		{Name: "dead-lettered", Value: c.Outcomes.DeadLettered, Bad: true},
		{Name: "records in failed calls", Value: c.Outcomes.FailedCallRecords, Bad: true},
		{Name: "lost", Value: c.Gone(), Bad: true},
	}
	if !c.DownSince.IsZero() {
		all = append(all, console.Count{Name: "seconds without a success of the handler",
			Value: max(1, int(time.Since(c.DownSince).Seconds())), Bad: true})
	}
	return slices.DeleteFunc(all, func(n console.Count) bool {
		return n.Value == 0 && n.Name != "done" && n.Name != "deliveries" && n.Name != "invocations"
	})
}

// Letters implements console.Source.
func (p *page) Letters(context.Context) ([]console.Letter, error) {
	letters := []console.Letter{}
	if p.owner.store == nil {
		return letters, nil
	}
	for _, body := range p.owner.store.queues.Bodies(p.owner.store.Queue) {
		l, err := kafka.ParseDeadLetter([]byte(body))
		if err != nil {
			// another function's message may have any form
			letters = append(letters, console.Letter{Message: err.Error(), Value: cutText(body)})
			continue
		}
		letters = append(letters, console.LetterOf(&l))
	}
	return letters, nil
}

func cutText(s string) string {
	const most = 4096
	return s[:min(len(s), most)]
}

// Do implements console.Source.
func (p *page) Do(ctx context.Context, a console.Action) (string, error) {
	b, recorder := p.buttons, p.recorder
	if !slices.Contains(b.available(), a.Action) {
		return "", fmt.Errorf("%w in this run: %.40q", console.ErrAction, a.Action)
	}
	switch a.Action {
	case console.ActionDisable, console.ActionEnable:
		if mapping, ok := p.owner.source.(*esm.ESM); ok {
			mapping.SetEnabled(a.Action == console.ActionEnable)
		}
		return "The event source mapping is " + a.Action + "d.", nil
	case console.ActionKill:
		recorder.armed.kill.Store(true)
		return "The process that claims a key next is killed.", nil
	case console.ActionKillEffect:
		recorder.armed.effect.Store(true)
		return "The process that writes to another table next is killed before it gets the answer.", nil
	case console.ActionPause:
		if !b.pausing.CompareAndSwap(false, true) {
			return "", fmt.Errorf("%w: a process is paused, or about to be", console.ErrAction)
		}
		recorder.armed.pause.Store(true)
		return "The process that claims a key next is paused at its completion, until another process has taken the key over.", nil
	case console.ActionStoreFail:
		recorder.armed.broken.Store(time.Now().Add(storeFault).UnixNano())
		return fmt.Sprintf("The store fails for %s.", storeFault), nil
	case console.ActionStoreSlow:
		recorder.armed.slow.Store(time.Now().Add(storeFault).UnixNano())
		return fmt.Sprintf("Each request to the store takes %s more, for %s.", storeDelay, storeFault), nil
	case console.ActionRedeliver:
		return "The batch was delivered again to another process.",
			b.again(context.WithoutCancel(ctx), a.Invocation, 1)
	case console.ActionTwice:
		return "The batch was delivered to two processes at once.", b.again(context.WithoutCancel(ctx), a.Invocation, 2) //nolint:mnd // two
	case console.ActionProduce:
		return b.produce(ctx, a.Record)
	case console.ActionProduceFile:
		return b.produceFile(ctx, a.File)
	}
	return b.redrive(ctx, a.Letters)
}

package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/payments"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/testenv"
)

// Run runs the function on the topic until the context ends, or until nothing is left to deliver if UntilDrained is set. It returns
// an ErrOptions, or an error if the run could not start or continue. It leaves nothing running.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	command, err := o.validate()
	if err != nil {
		return nil, err
	}
	o.ESM.FunctionARN = arnOf(o.FunctionName)
	o.UntilDrained = o.UntilDrained || len(o.ESM.Events) > 0
	r := &run{o: &o, command: command, log: &lineWriter{w: o.Log}, produced: make(chan struct{}), cut: make(chan struct{})}
	ctx, r.end = context.WithCancelCause(ctx)
	defer r.end(nil)
	r.tally = &tally{begun: time.Now(), fail: func(err error) { r.end(&brokenError{err}) }, say: o.Say, recorded: len(o.ESM.Events) > 0}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	if err := r.serve(ctx); err != nil {
		return nil, err
	}
	if err := broken(ctx); err != nil {
		return nil, err
	}
	return r.report(context.WithoutCancel(ctx))
}

// brokenError ends a run that can't succeed.
type brokenError struct{ error }

// broken returns the error of a brokenError that ended the run, or nil.
func broken(ctx context.Context) error {
	if b := (*brokenError)(nil); errors.As(context.Cause(ctx), &b) {
		return b.error
	}
	return nil
}

// run is one run.
type run struct {
	o       *Options
	command []string
	end     context.CancelCauseFunc
	log     *lineWriter
	tally   *tally
	chances *chances

	brokers  []string
	store    *runStore // nil if the run has no test environment
	endpoint *endpoint
	mapping  *esm.ESM
	closers  []func() error // called in reverse order
	produced chan struct{}  // closed when all payments are produced
	cut      chan struct{}  // closed to abort running invocations
}

// prepare opens everything that the mapping needs, and creates the mapping.
func (r *run) prepare(ctx context.Context) error {
	o := r.o
	r.sayBroken()
	if err := r.openBroker(); err != nil {
		return err
	}
	if o.ownStore() {
		s, err := startStore(ctx, o)
		if err != nil {
			return err
		}
		r.store = s
		r.closers = append(r.closers, s.close)
		for _, line := range s.describe() {
			o.Say(line)
		}
	}
	destination, err := openDestination(ctx, o, r.store, r.brokers)
	if err != nil {
		return err
	}
	r.closers = append(r.closers, func() error { destination.close(); return nil })
	if o.Invoke != "" {
		if r.endpoint, err = dialEndpoint(ctx, o, r.tally); err != nil {
			return err
		}
	}
	parts := esm.Parts{
		Brokers: r.brokers, Kafka: o.Kafka, Invoker: r.invoker, Observer: r.tally, Destination: destination.Destination, Cut: r.cut,
	}
	if o.Faults.any() {
		r.chances = &chances{Faults: o.Faults, seed: o.Seed}
		parts.Faults = r.chances
		o.Say(fmt.Sprintf("Faults by seed %d.", o.Seed))
	}
	if o.UntilDrained {
		parts.Drain = r.produced
	}
	r.mapping, err = esm.New(o.ESM, parts)
	return err
}

// openBroker sets the brokers, or starts one.
func (r *run) openBroker() error {
	r.brokers = r.o.Brokers
	if len(r.brokers) > 0 || len(r.o.ESM.Events) > 0 {
		return nil
	}
	broker, err := startBroker(r.o)
	if err != nil {
		return err
	}
	r.brokers = broker.ListenAddrs()
	r.closers = append(r.closers, func() error { broker.Close(); return nil })
	r.o.Say(fmt.Sprintf("Broker in this process at %s, topic %s with %s.", strings.Join(r.brokers, ","), term.Escape(r.o.ESM.Topics[0]),
		term.Plural(r.o.Partitions, "partition", "partitions")))
	return nil
}

// invoker returns the invoker of a poller.
func (r *run) invoker(ctx context.Context, _ int) (esm.Invoker, error) {
	main, err := r.plainInvoker(ctx)
	if err != nil || r.chances == nil {
		return main, err
	}
	return &faulty{chances: r.chances, tally: r.tally, main: main, newSecond: r.plainInvoker}, nil
}

func (r *run) plainInvoker(ctx context.Context) (esm.Invoker, error) {
	if r.endpoint != nil {
		return r.endpoint, nil
	}
	var env []string
	var point *killPoint
	if r.store != nil {
		env = r.store.environment(r.o)
	}
	if r.o.Faults.atEffect() {
		var err error
		if point, err = startKillPoint(r.store.tables, r.store.Keys, r.o.Faults.KillAt == KillAfterEffect); err != nil {
			return nil, err
		}
		env = append(env, "AWS_ENDPOINT_URL_DYNAMODB="+point.url)
	}
	return startProcess(ctx, r.o, r.command, env, point, r.tally, r.log)
}

// serve runs the mapping, the producer and the view until the mapping ends.
func (r *run) serve(ctx context.Context) error {
	if r.o.Show != nil {
		stop := r.o.Show(&View{title: r.title(), mapping: r.mapping, tally: r.tally, events: len(r.o.ESM.Events), lease: r.o.lease()})
		defer stop()
	}
	group, beside := errgroup.WithContext(ctx)
	beside, cancel := context.WithCancel(beside)
	defer cancel()
	over := make(chan struct{})
	group.Go(func() error {
		defer close(over)
		defer cancel() // ends the other goroutines
		return r.mapping.Run(beside)
	})
	group.Go(func() error { r.leave(ctx, over); return nil })
	group.Go(func() error { return r.produce(beside) })
	group.Go(func() error { r.toggle(beside); return nil })
	return group.Wait()
}

// leave reports what a run waits for after a stop, and aborts it on request.
func (r *run) leave(ctx context.Context, over <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-over:
		return
	}
	if _, flight := sums(r.mapping.Partitions()); flight > 0 && broken(ctx) == nil {
		r.o.Say(fmt.Sprintf("Stopping: nothing more is read. Waiting for the function to be done with %s, for %s at most (its timeout); "+
			"Ctrl-C again aborts it.", term.Plural(flight, "record", "records"), r.o.ESM.Timeout))
	}
	select {
	case <-r.o.Cut:
		close(r.cut)
		r.o.Say("Stopped at once: records whose invocation had not ended are not committed; the next run redelivers them.")
	case <-over:
	}
}

func (r *run) title() string {
	if n := len(r.o.ESM.Events); n > 0 {
		return term.Plural(n, "recorded event", "recorded events")
	}
	pollers := min(r.o.ESM.Pollers, r.o.Partitions)
	if len(r.o.Brokers) > 0 {
		pollers = r.o.ESM.Pollers
	}
	return term.Escape(fmt.Sprintf("topic %s, group %s, %s, %s", r.o.ESM.Topics[0], r.o.ESM.ConsumerGroup,
		term.Plural(pollers, "poller", "pollers"), strings.Join(r.brokers, ",")))
}

// produce produces the payments, and closes produced.
func (r *run) produce(ctx context.Context) error {
	if r.o.Produce > 0 {
		if err := produce(ctx, r.o, r.brokers); err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // aborted, because the run ends
			}
			return err
		}
		r.o.Say(fmt.Sprintf("Produced %s to %s by seed %d.", term.Plural(r.o.Produce, "record", "records"), term.Escape(r.o.ESM.Topics[0]), r.o.Seed))
		r.o.Say(fmt.Sprintf("About %d in 1,000 of these payments can never be booked, and %d in 1,000 fail twice before they succeed: the failures "+
			"with \"simulated failure\" are generated, for a function that supports the field simulate.", payments.PoisonPerMille, payments.FlakyPerMille))
	}
	close(r.produced)
	return nil
}

// toggle disables or enables the mapping with each value of Options.Toggle.
func (r *run) toggle(ctx context.Context) {
	for {
		select {
		case <-r.o.Toggle:
			r.mapping.SetEnabled(!r.mapping.Enabled())
		case <-ctx.Done():
			return
		}
	}
}

// close calls the closers.
func (r *run) close() error {
	var errs []error
	for _, f := range slices.Backward(r.closers) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// report returns the report of a run that has ended.
func (r *run) report(ctx context.Context) (*Report, error) {
	out := &Report{Counts: r.tally.snapshot(), Partitions: r.mapping.Partitions(), Took: time.Since(r.tally.begun), Seed: r.o.Seed, Events: len(r.o.ESM.Events)}
	if !r.tally.first.IsZero() {
		out.First = r.tally.first.Sub(r.tally.begun)
	}
	if r.store == nil {
		return out, nil
	}
	messages, err := r.store.Messages(ctx)
	if err != nil {
		return nil, err
	}
	letters, err := testenv.ParseLetters(messages)
	out.Messages, out.Letters = len(messages), letters
	if !r.o.Prove {
		return out, nil // the messages of another function may have any form
	}
	if err == nil {
		out.Verified, err = r.verify(ctx, out, letters)
	}
	return out, err
}

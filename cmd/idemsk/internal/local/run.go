package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/payments"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// Run runs the function on the topic until the context ends, or until nothing is left to deliver if
// UntilDrained is set. With Compare it runs it once more, without idemsk, on the same generated records, unless
// the context has ended before. A page shows both. Run returns an ErrOptions, or an error if the run could not
// start or continue. It leaves nothing running.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	shown := new(pages)
	defer func() { err = errors.Join(err, shown.close()) }()
	if report, err = once(ctx, o, shown); err != nil || !o.Compare || ctx.Err() != nil {
		return report, err
	}
	o.Say("The same without idemsk (IDEMSK_STORE=none):")
	o.Unprotected = true
	report.Without, err = once(ctx, o, shown)
	return report, err
}

// once runs the function once.
func once(ctx context.Context, o Options, shown *pages) (report *Report, err error) {
	command, err := o.validate()
	if err != nil {
		return nil, err
	}
	o.ESM.FunctionARN = arnOf(o.FunctionName)
	o.UntilDrained = o.UntilDrained || len(o.ESM.Events) > 0
	o.Example = o.IsExample()
	r := &run{o: &o, command: command, pages: shown, log: &lineWriter{w: o.Log, say: o.Say},
		produced: make(chan struct{}), cut: make(chan struct{})}
	ctx, r.end = context.WithCancelCause(ctx)
	defer r.end(nil)
	r.tally = &tally{begun: time.Now(), fail: func(err error) { r.end(&brokenError{err}) }, say: o.Say,
		recorded: len(o.ESM.Events) > 0}
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
	if r.store != nil {
		if err := r.store.saveTraces(&o); err != nil {
			return nil, err
		}
	}
	if report, err = r.report(context.WithoutCancel(ctx)); err == nil && r.page != nil {
		r.page.end(report)
	}
	return report, err
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

	recorder *recorder // nil if no page is served
	page     *page     // nil if no page is served
	pages    *pages

	brokers  []string
	store    *runStore // nil if the run has no test environment
	endpoint *endpoint
	source   source
	closers  []func() error // called in reverse order
	produced chan struct{}  // closed when all payments are produced
	cut      chan struct{}  // closed to abort running invocations
}

// source handles the records of the topic. *esm.ESM is Lambda's event source, consumers are the processes of
// a group.
type source interface {
	// Run runs until the context ends, or until nothing is left and no more payments will be produced. It
	// leaves nothing running.
	Run(ctx context.Context) error
	// Partitions returns the states of the partitions, by number.
	Partitions() []esm.PartitionState
}

// prepare opens everything that the run needs.
func (r *run) prepare(ctx context.Context) error {
	o := r.o
	r.sayBroken()
	if o.UI.Addr != "" {
		r.recorder = newRecorder()
	}
	if err := r.openBroker(); err != nil {
		return err
	}
	if o.ownStore() {
		s, err := startStore(ctx, o, r.recorder)
		if err != nil {
			return err
		}
		r.store = s
		r.closers = append(r.closers, s.close)
		for _, line := range s.describe() {
			o.Say(line)
		}
	}
	if o.Faults.any() {
		r.chances = &chances{Faults: o.Faults, seed: o.Seed}
		o.Say(fmt.Sprintf("Faults by seed %d.", o.Seed))
	}
	var err error
	switch {
	case o.fromQueue():
		r.source, err = r.openQueueSource(ctx)
	case o.processes():
		r.source, err = newConsumers(ctx, r)
	default:
		r.source, err = r.openMapping(ctx)
	}
	if err == nil && r.recorder != nil {
		err = r.openPage()
	}
	return err
}

// openMapping returns the event source mapping.
func (r *run) openMapping(ctx context.Context) (*esm.ESM, error) {
	o := r.o
	destination, err := openDestination(ctx, o, r.store, r.brokers)
	if err != nil {
		return nil, err
	}
	r.closers = append(r.closers, func() error { destination.close(); return nil })
	if o.Invoke != "" {
		if r.endpoint, err = dialEndpoint(ctx, o, r.tally); err != nil {
			return nil, err
		}
	}
	parts := esm.Parts{
		Brokers: r.brokers, Kafka: o.Kafka, Invoker: r.invoker, Observe: r.observe,
		Destination: destination.Destination, Cut: r.cut,
	}
	if parts.Schemas, err = r.openSchemas(ctx); err != nil {
		return nil, err
	}
	if r.chances != nil {
		parts.Faults = r.chances
	}
	if o.UntilDrained {
		parts.Drain = r.produced
	}
	return esm.New(o.ESM, parts)
}

// openBroker sets the brokers, or starts one.
func (r *run) openBroker() error {
	r.brokers = r.o.Brokers
	if len(r.brokers) > 0 || len(r.o.ESM.Events) > 0 || r.o.fromQueue() {
		return nil
	}
	broker, err := startBroker(r.o)
	if err != nil {
		return err
	}
	r.brokers = broker.ListenAddrs()
	r.closers = append(r.closers, func() error { broker.Close(); return nil })
	r.o.Say(fmt.Sprintf("Broker in this process at %s, topic %s with %s.", joined(r.brokers),
		term.Escape(r.o.ESM.Topics[0]),
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
	s := r.recorder.newSlot(r.tally.killed)
	if r.endpoint != nil {
		return &recordedEndpoint{r.endpoint, s}, nil
	}
	var env []string
	var point *killPoint
	if r.store != nil {
		env = r.store.environment(r.o)
	}
	if r.o.Faults.atEffect() {
		var err error
		if point, err = startKillPoint(r.store.tables, r.store.Keys,
			r.o.Faults.KillAt == KillAfterEffect); err != nil {
			return nil, err
		}
		env = append(env, "AWS_ENDPOINT_URL_DYNAMODB="+point.URL())
	}
	if s != nil && r.o.storeKind() == StoreFake {
		env = append(env, "AWS_ACCESS_KEY_ID="+s.id) // tells the requests of processes apart
	}
	return startProcess(ctx, r.o, r.command, env, point, s, r.tally, r.log)
}

// observe takes an event of the mapping.
func (r *run) observe(e esm.Event) {
	r.tally.observe(e)
	if r.recorder != nil {
		r.recorder.observeMapping(e)
	}
}

// serve runs the source, the producer and the view until the source ends.
func (r *run) serve(ctx context.Context) error {
	if r.o.Show != nil {
		stop := r.o.Show(&View{title: r.title(), source: r.source, tally: r.tally,
			events: len(r.o.ESM.Events), queue: r.o.Queue, lease: r.o.lease()})
		defer stop()
	}
	group, beside := errgroup.WithContext(ctx)
	beside, cancel := context.WithCancel(beside)
	defer cancel()
	over := make(chan struct{})
	group.Go(func() error {
		defer close(over)
		defer cancel() // ends the other goroutines
		return r.source.Run(beside)
	})
	group.Go(func() error { r.leave(ctx, over); return nil })
	group.Go(func() error { return r.produce(beside) })
	group.Go(func() error { r.toggle(beside); return nil })
	if r.page != nil {
		group.Go(func() error { r.page.run(beside); return nil })
	}
	return group.Wait()
}

// leave reports what a run waits for after a stop, and aborts it on request.
func (r *run) leave(ctx context.Context, over <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-over:
		return
	}
	if _, flight := sums(r.source.Partitions()); flight > 0 && broken(ctx) == nil {
		r.o.Say(fmt.Sprintf("Stopping: nothing more is read. Waiting for the function to be done with %s, for %s at most (its timeout); "+
			"Ctrl-C again aborts it.", term.Plural(flight, "record", "records"), r.o.ESM.Timeout))
	}
	select {
	case <-r.o.Cut:
		close(r.cut)
		r.o.Say("Stopped at once: records that were not done are not committed; the next run redelivers them.")
	case <-over:
	}
}

func (r *run) title() string {
	if n := len(r.o.ESM.Events); n > 0 {
		return term.Plural(n, "recorded event", "recorded events")
	}
	if r.o.fromQueue() {
		return term.Escape("queue "+r.o.Queue) + ", " + term.Plural(r.o.ESM.Pollers, "poller", "pollers")
	}
	var handled string
	if c, ok := r.source.(*consumers); ok {
		handled = c.describe()
	} else {
		handled = r.pollers()
	}
	return term.Escape(fmt.Sprintf("topic %s, group %s, %s, %s", r.o.ESM.Topics[0], r.o.ESM.ConsumerGroup,
		handled, joined(r.brokers)))
}

func (r *run) pollers() string {
	pollers := min(r.o.ESM.Pollers, r.o.Partitions)
	if len(r.o.Brokers) > 0 {
		pollers = r.o.ESM.Pollers
	}
	return term.Plural(pollers, "poller", "pollers")
}

// produce produces the payments, and closes produced.
func (r *run) produce(ctx context.Context) error {
	if r.o.Produce > 0 {
		if err := r.send(ctx); err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // aborted, because the run ends
			}
			return err
		}
		r.o.Say(fmt.Sprintf("Produced %s to %s by seed %d.", term.Plural(r.o.Produce, "record", "records"),
			term.Escape(r.o.ESM.Topics[0]), r.o.Seed))
		if r.o.Example {
			r.o.Say(fmt.Sprintf("About %d in 1,000 of these payments can never be booked, and %d in 1,000 fail twice before they succeed: the failures "+
				"with \"simulated failure\" are generated.",
				payments.PoisonPerMille, payments.FlakyPerMille))
		}
	}
	close(r.produced)
	return nil
}

// send produces the payments to the topic or the queue.
func (r *run) send(ctx context.Context) error {
	if q, ok := r.source.(*queueSource); ok {
		return q.send(ctx, r.o)
	}
	return producePayments(ctx, r.o, r.brokers)
}

// toggle disables or enables the mapping with each value of Options.Toggle. It does not affect processes.
func (r *run) toggle(ctx context.Context) {
	for {
		select {
		case <-r.o.Toggle:
			if mapping, ok := r.source.(*esm.ESM); ok {
				mapping.SetEnabled(!mapping.Enabled())
			}
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

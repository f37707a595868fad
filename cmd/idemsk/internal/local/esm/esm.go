package esm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/kafkaclient"
	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/schema"
)

// Parts are what a mapping needs besides its configuration.
type Parts struct {
	Brokers []string  // host:port; none: Config.Events are delivered
	Kafka   []kgo.Opt // authentication; may be empty
	// Invoker returns the invoker of a poller. Pollers are counted from 0. It is not called concurrently.
	Invoker     func(ctx context.Context, poller int) (Invoker, error)
	Destination Destination // if Config.OnFailure is set
	// Observe is called with events, by several goroutines at once. It must not block. It may be nil.
	Observe func(e Event)
	Faults  Faults // may be nil
	// Schemas decodes records, if Config.SchemaRegistry is set.
	Schemas *schema.Decoder
	// Drain is closed by the caller to end Run when nothing is left to deliver. It may be nil.
	Drain <-chan struct{}
	// Cut is closed by the caller to abort the invocations that still run after a stop. It may be nil.
	Cut <-chan struct{}
}

// ESM is an event source mapping. Use New.
type ESM struct {
	config   Config
	parts    Parts
	filters  filters
	envelope mskevent.Envelope
	toggle   *toggle

	cluster *cluster
	pollers []*poller

	mu     sync.Mutex
	states map[int32]*PartitionState
}

// New returns a mapping. Its error is an ErrConfig that names every invalid parameter.
func New(c Config, parts Parts) (*ESM, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if (c.OnFailure != "") != (parts.Destination != nil) || parts.Invoker == nil ||
		(len(parts.Brokers) == 0) != c.recorded() ||
		(c.SchemaRegistry != nil) != (parts.Schemas != nil) {
		return nil, fmt.Errorf("%w: it needs brokers or recorded events, an invoker, a destination if OnFailure is set, and schemas if SchemaRegistry is", ErrConfig)
	}
	filters, err := parseFilters(c.FilterCriteria)
	if err != nil {
		return nil, err
	}
	return &ESM{
		config: c, parts: parts, filters: filters, envelope: mskevent.MSK(c.EventSourceARN, parts.Brokers...),
		toggle: newToggle(), states: make(map[int32]*PartitionState),
	}, nil
}

// SetEnabled enables or disables the mapping, as UpdateEventSourceMapping does. A running invocation
// finishes. The records that it leaves are delivered again when the mapping is enabled.
func (m *ESM) SetEnabled(enabled bool) {
	if !m.toggle.set(enabled) {
		return
	}
	kind := Disabled
	if enabled {
		kind = Enabled
	}
	m.observe(Event{Kind: kind})
}

// Enabled reports whether the mapping is enabled.
func (m *ESM) Enabled() bool { on, _ := m.toggle.state(); return on }

// Partitions returns the states of the partitions, ordered by number. It returns none until Run has looked
// them up.
func (m *ESM) Partitions() []PartitionState {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]PartitionState, 0, len(m.states))
	for _, s := range m.states {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b PartitionState) int { return int(a.Partition - b.Partition) })
	return all
}

// errDrained ends a run that has nothing left to deliver.
var errDrained = errors.New("drained")

// Run polls and invokes until the context ends, or until Parts.Drain is closed and nothing is left to
// deliver. Then it stops reading, waits for running invocations, at most for the function's timeout or until
// Parts.Cut is closed, and commits the finished records. It returns an error if it could not start or
// continue. It leaves nothing running, and is called once.
func (m *ESM) Run(ctx context.Context) (err error) {
	if err := m.open(ctx); err != nil {
		m.close()
		if ctx.Err() != nil { // stopped before it started
			return nil
		}
		return err
	}
	defer m.close()
	group, stop := errgroup.WithContext(ctx)
	work, kill := context.WithCancelCause(context.WithoutCancel(ctx))
	defer kill(nil)
	guard := context.AfterFunc(stop, func() {
		timer := time.NewTimer(m.config.Timeout)
		defer timer.Stop()
		select {
		case <-timer.C:
			kill(errors.New("the mapping stopped, and the function's timeout is over"))
		case <-m.parts.Cut: // if nil, never
			kill(errors.New("the mapping was stopped at once"))
		case <-work.Done():
		}
	})
	defer guard()
	for _, p := range m.pollers {
		group.Go(func() error { return p.run(stop, work) })
	}
	group.Go(func() error { return m.watch(stop) })
	if err := group.Wait(); !errors.Is(err, errDrained) {
		return err
	}
	return nil
}

// open connects to the cluster, finds the first offsets and creates the pollers.
func (m *ESM) open(ctx context.Context) (err error) {
	if m.config.recorded() {
		return m.openRecorded(ctx)
	}
	if m.cluster, err = dial(ctx, m.parts.Brokers, m.parts.Kafka, &m.config); err != nil {
		return err
	}
	numbers, err := m.cluster.partitions(ctx)
	if err != nil {
		return err
	}
	if err := kafkaclient.CheckIdle(ctx, m.cluster.admin, m.config.ConsumerGroup); err != nil {
		return err
	}
	begin, err := m.cluster.start(ctx, &m.config)
	if err != nil {
		return err
	}
	for i, share := range deal(numbers, m.config.Pollers) {
		if err := m.addPoller(ctx, i, share, begin); err != nil {
			return err
		}
	}
	return nil
}

// deal distributes partitions among at most n pollers. Each gets at least one.
func deal(partitions []int32, n int) [][]int32 {
	shares := make([][]int32, min(n, len(partitions)))
	for i, p := range partitions {
		shares[i%len(shares)] = append(shares[i%len(shares)], p)
	}
	return shares
}

func (m *ESM) addPoller(ctx context.Context, number int, partitions []int32, begin offsets) error {
	invoker, err := m.parts.Invoker(ctx, number)
	if err != nil {
		return err
	}
	p := &poller{m: m, number: number, invoker: invoker}
	m.pollers = append(m.pollers, p) // so that close closes it
	if p.client, err = m.cluster.consumer(begin, partitions); err != nil {
		return err
	}
	p.feed = &collector{config: &m.config, source: m.converted(number, kafka{p.client}), filters: m.filters,
		envelope: m.envelope}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range partitions {
		m.states[n] = &PartitionState{Partition: n, Poller: number, Begin: begin[n], Committed: begin[n],
			End: begin[n]}
	}
	return nil
}

// converted returns a source whose records are validated and converted, if there is a schema registry.
func (m *ESM) converted(poller int, from source) source {
	if m.parts.Schemas == nil {
		return from
	}
	unavailable := func(err error) {
		m.observe(Event{Kind: Unavailable, Poller: poller, Batch: "the schema registry", Err: err})
	}
	return &converting{source: from, config: &m.config, decoder: m.parts.Schemas, unavailable: unavailable}
}

// close closes the pollers and the connection to the cluster.
func (m *ESM) close() {
	var closing sync.WaitGroup
	for _, p := range m.pollers {
		closing.Go(func() { p.close(context.Background()) })
	}
	closing.Wait()
	if m.cluster != nil {
		m.cluster.close()
	}
}

func (m *ESM) observe(e Event) {
	if m.parts.Observe != nil {
		m.parts.Observe(e)
	}
}

// The interval at which the ends of partitions are looked up, and the maximum time without an answer from the
// cluster.
const (
	watchEvery = 200 * time.Millisecond
	maxSilence = 30 * time.Second
)

// watch looks up the ends of the partitions. It returns errDrained when nothing is left to deliver and
// Parts.Drain is closed.
func (m *ESM) watch(ctx context.Context) error {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	heard := time.Now()
	for {
		drain := m.draining() // before look, which finds all records that were produced until then
		switch err := m.look(ctx); {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			heard = time.Now()
			if drain && m.drained() {
				return errDrained
			}
		case time.Since(heard) > maxSilence:
			return fmt.Errorf("the brokers at %s do not respond: %w", m.cluster.brokers, err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (m *ESM) draining() bool {
	select {
	case <-m.parts.Drain: // if nil, never
		return true
	default:
		return false
	}
}

func (m *ESM) look(ctx context.Context) error {
	if m.cluster == nil { // the number of recorded events is known
		return nil
	}
	ends, err := m.cluster.ends(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for number, state := range m.states {
		state.End = ends[number]
	}
	return nil
}

func (m *ESM) drained() bool {
	return !slices.ContainsFunc(m.Partitions(),
		func(s PartitionState) bool { return s.Lag() > 0 || s.InFlight > 0 })
}

// track adds records to those in flight (sign 1), or removes them (-1).
func (m *ESM) track(records []Record, sign int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range records {
		m.states[records[i].Partition].InFlight += sign
	}
}

// commit commits offsets, if there are any.
func (m *ESM) commit(ctx context.Context, done offsets) error {
	if len(done) == 0 {
		return nil
	}
	if m.cluster != nil { // recorded events have no offsets
		if err := m.cluster.commit(ctx, done); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for number, next := range done {
		m.states[number].Committed = next
	}
	return nil
}

// failure describes records that are given up.
func (m *ESM) failure(condition string, b *batch, d *delivery, records []Record) *Failure {
	return &Failure{
		Condition: condition, Invocations: d.invocations, Last: d.last, Records: records, At: time.Now(),
		envelope: b.envelope, functionARN: m.config.FunctionARN, eventSourceARN: m.config.EventSourceARN,
		brokers: strings.Join(m.parts.Brokers, ","),
	}
}

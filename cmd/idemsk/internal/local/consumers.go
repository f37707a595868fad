package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/kafkaclient"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/metrics"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/testenv"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/verify"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/internal/mskevent"
)

// Times of consumers.
const (
	lookInterval   = 100 * time.Millisecond
	lookTimeout    = 10 * time.Second
	commitInterval = 200 * time.Millisecond
	drainTimeout   = 20 * time.Second // the default of a process, after which it ends by itself
	// A broker in this process allows a shorter session than others do by default.
	ownSession, usualSession = 2 * time.Second, 6 * time.Second
)

// recordsOfChance is the number of records for which a process meets each fault with its chance.
const recordsOfChance = 100

// stableLooks is how many looks in a row must find the group stable before a fault, with the broker in this
// process. That broker removes a member whose session ends while it waits for a rebalance, and never answers
// it, so no process may be dead or paused during a rebalance.
const stableLooks = 2

// maxExits is how often in a row processes may end by themselves, without a commit between.
const maxExits = 3

// consumers have the topic consumed by processes that are members of a consumer group.
type consumers struct {
	o          *Options
	run        *run
	env        []string
	session    time.Duration // of a member
	admin      *kadm.Client
	http       *http.Client
	members    []*member
	gone       metrics.Outcomes // of processes that have ended
	partitions partitionStates
	rolled     int // how often the chances of faults were rolled
	stable     int // looks in a row at which every process was a member and no rebalance was under way
	exits      int // that were not asked for, since the last commit
}

// newConsumers connects to the brokers, and starts no process. Its error says why the topic or the group
// can't be used.
func newConsumers(ctx context.Context, r *run) (*consumers, error) {
	client, err := kafkaclient.Dial(ctx, r.brokers, r.o.Kafka...)
	if err != nil {
		return nil, err
	}
	c := &consumers{o: r.o, run: r, session: usualSession, admin: kadm.NewClient(client),
		http: &http.Client{Transport: &http.Transport{}, Timeout: time.Second}}
	r.closers = append(r.closers, func() error { c.http.CloseIdleConnections(); client.Close(); return nil })
	if len(r.o.Brokers) == 0 {
		c.session = ownSession
	}
	c.env = c.environment()
	for n := range r.o.Processes {
		c.members = append(c.members, &member{number: n + 1})
	}
	return c, c.open(ctx)
}

// open checks the topic and the group, and sets where each partition begins.
func (c *consumers) open(ctx context.Context) error {
	topic := c.o.ESM.Topics[0]
	starts, err := c.admin.ListStartOffsets(ctx, topic)
	if err = cmp.Or(err, starts.Error()); err != nil {
		return fmt.Errorf("the topic %s: %w: create it (idemsk topic create), or name another with --topic",
			topic, err)
	}
	if err := kafkaclient.CheckIdle(ctx, c.admin, c.o.ESM.ConsumerGroup); err != nil {
		return err
	}
	commits, err := kafkaclient.Committed(ctx, c.admin, c.o.ESM.ConsumerGroup, topic)
	if err != nil {
		return err
	}
	c.partitions.open(starts[topic], commits)
	return nil
}

// environment returns the variables of the processes.
func (c *consumers) environment() []string {
	env := []string{"PATH=" + os.Getenv("PATH")}
	if c.run.store != nil {
		env = append(env, c.run.store.variablesOf(c.o)...)
		env = append(env, "AWS_REGION="+testenv.Region)
	}
	env = append(env,
		"IDEMSK_KAFKA_BROKERS="+joined(c.run.brokers), "IDEMSK_KAFKA_TOPICS="+c.o.ESM.Topics[0],
		"IDEMSK_KAFKA_GROUP="+c.o.ESM.ConsumerGroup,
		"IDEMSK_NAMESPACE="+c.o.FunctionName, "IDEMSK_KAFKA_SESSION_TIMEOUT="+c.session.String(),
		"IDEMSK_COMMIT_INTERVAL="+commitInterval.String(), "IDEMSK_DRAIN_TIMEOUT="+drainTimeout.String(),
		"IDEMSK_HTTP_ADDR="+loopback(0))
	return append(env, c.o.Env...)
}

// Partitions implements source.
func (c *consumers) Partitions() []esm.PartitionState { return c.partitions.all() }

// Run implements source.
func (c *consumers) Run(ctx context.Context) error {
	defer c.kill()
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		if err := c.keep(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return c.stop()
		case <-ticker.C:
		}
		produced := c.allProduced() // before the look at the ends
		if err := c.look(ctx); err != nil {
			c.run.tally.note(func(counts *Counts) { counts.LastError = err.Error() })
			continue
		}
		if produced && c.partitions.lag() == 0 {
			return c.stop()
		}
		c.injectFaults()
	}
}

func (c *consumers) allProduced() bool {
	select {
	case <-c.run.produced:
		return c.o.UntilDrained
	default:
		return false
	}
}

// keep starts the processes that do not run.
func (c *consumers) keep() error {
	for _, m := range c.members {
		if m.process != nil && !m.hasEnded() {
			continue
		}
		if err := c.ended(m); err != nil {
			return err
		}
		// A static member takes its partitions over from the process that was killed, without a rebalance
		// that waits for that one.
		env := append([]string{"IDEMSK_KAFKA_INSTANCE_ID=" + c.o.ESM.ConsumerGroup + "-" +
			strconv.Itoa(m.number), "IDEMSK_KAFKA_LEAVE=true"}, c.env...)
		if err := m.start(c.run.command, env, c.run.log); err != nil {
			return fmt.Errorf("the consumer process can't be started (--function): %w", err)
		}
		c.run.tally.note(func(counts *Counts) { counts.Started++ })
	}
	return nil
}

// ended takes note of how a process ended. It returns an error if processes keep ending by themselves.
func (c *consumers) ended(m *member) error {
	if m.process == nil {
		return nil
	}
	c.gone.Add(&m.outcomes)
	m.outcomes = metrics.Outcomes{}
	status, _ := m.process.Status()
	if m.killed {
		return nil
	}
	c.run.tally.note(func(counts *Counts) {
		counts.Failed++
		counts.LastError = fmt.Sprintf("process %d ended by itself: %s: %s", m.number, status, m.lastLine())
	})
	if c.exits++; c.exits >= maxExits {
		return fmt.Errorf("the consumer ended %d times by itself before it committed anything, the last time with %s: %s", c.exits, status, m.lastLine())
	}
	return nil
}

// look asks the brokers for the offsets, and the processes for their counts.
func (c *consumers) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	topic := c.o.ESM.Topics[0]
	ends, err := c.admin.ListEndOffsets(ctx, topic)
	if err = cmp.Or(err, ends.Error()); err != nil {
		return err
	}
	commits, err := kafkaclient.Committed(ctx, c.admin, c.o.ESM.ConsumerGroup, topic)
	if err != nil {
		return err
	}
	done := c.partitions.update(commits, ends[topic])
	if done > 0 {
		c.exits = 0
	}
	if done != 0 { // records whose offset a late commit moved back are committed again
		c.run.tally.observe(esm.Event{Kind: esm.Committed, Records: done})
	}
	if err := c.lookAtGroup(ctx); err != nil {
		return err
	}
	total := c.gone
	for _, m := range c.members {
		m.scrape(ctx, c.http)
		total.Add(&m.outcomes)
	}
	c.run.tally.handled(&total)
	return nil
}

// lookAtGroup finds out whether faults may be injected.
func (c *consumers) lookAtGroup(ctx context.Context) error {
	if len(c.o.Brokers) > 0 || c.run.chances == nil {
		c.stable = stableLooks // brokers that answer every member
		return nil
	}
	group, err := kafkaclient.Group(ctx, c.admin, c.o.ESM.ConsumerGroup)
	if err != nil {
		return err
	}
	if group.State == "Stable" && len(group.Members) == len(c.members) {
		c.stable++
	} else {
		c.stable = 0
	}
	return nil
}

// injectFaults rolls the chances once for every recordsOfChance records that were committed, as soon as the
// group is stable.
func (c *consumers) injectFaults() {
	now := time.Now()
	for _, m := range c.members {
		m.continueAt(now)
	}
	chances := c.run.chances
	if chances == nil {
		return
	}
	for ; c.rolled < c.partitions.done()/recordsOfChance && c.stable >= stableLooks; c.rolled++ {
		roll := func(purpose string) float64 { return chances.roll(purpose, mskevent.Place{}, c.rolled) }
		able := slices.DeleteFunc(slices.Clone(c.members),
			func(m *member) bool { return m.killed || m.paused || m.hasEnded() })
		if len(able) == 0 {
			continue
		}
		m := able[int(roll(forMember)*float64(len(able)))]
		switch {
		case roll(forKill) < chances.Kill:
			m.kill()
			c.stable = 0
			c.run.tally.killed(verify.Kill{During: "process " + strconv.Itoa(m.number), At: now})
		case roll(forConcurrent) < chances.Concurrent &&
			!slices.ContainsFunc(c.members, func(m *member) bool { return m.paused }):
			// The others get its partitions, and perhaps the keys that it holds.
			m.pause(now.Add(c.session + time.Duration(roll(forMoment)*float64(c.o.lease()+time.Second))))
			c.stable = 0
			c.run.tally.concurrent()
		}
	}
}

// stop drains the processes, until it is cut off.
func (c *consumers) stop() error {
	for _, m := range c.members {
		m.continueAt(m.until)
		m.process.Signal(syscall.SIGTERM)
	}
	var failed []error
	for _, m := range c.members {
		select {
		case <-m.process.Ended():
			if status, ok := m.process.Status(); !ok && !m.killed && m.metricsAddress() != "" {
				// else it had not begun
				failed = append(failed, fmt.Errorf("process %d did not drain: %s: %s", m.number, status,
					m.lastLine()))
			}
		case <-c.run.cut:
			return nil
		}
	}
	return errors.Join(append(failed, c.look(context.Background()))...)
}

// kill leaves nothing of the processes.
func (c *consumers) kill() {
	for _, m := range c.members {
		if m.process != nil {
			m.process.Signal(syscall.SIGKILL)
			<-m.process.Ended()
		}
	}
}

// describe returns what handles the records.
func (c *consumers) describe() string { return term.Plural(len(c.members), "process", "processes") }

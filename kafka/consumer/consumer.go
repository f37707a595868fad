package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
)

// Consumer is a member of a consumer group that runs a handler. It is safe for concurrent use.
type Consumer struct {
	cfg       Config
	processor *kafka.Processor
	member    atomic.Pointer[member] // nil before Run
	ended     atomic.Bool
}

// New returns a consumer. It does not connect; see Run. It returns idem.ErrInvalidConfig (wrapped), which names
// every invalid field.
func New(engine *idem.Engine, handler kafka.Handler, cfg Config) (*Consumer, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if err := kgo.ValidateOpts(cfg.clientOptions()...); err != nil {
		return nil, fmt.Errorf("consumer: %w: Options: %w", idem.ErrInvalidConfig, err)
	}
	if err := cfg.checkLetters(false, nil); err != nil {
		return nil, err
	}
	processor, err := kafka.NewProcessor(engine, handler, cfg.Records)
	if err != nil {
		return nil, err
	}
	return &Consumer{cfg: cfg, processor: processor}, nil
}

// Run joins the group and handles records until ctx ends. It then drains, commits, leaves the group and
// returns nil; see the package comment. It may be called once.
//
// It returns an error
//   - if it can't begin: no broker answers within Config.StartTimeout, a topic does not exist, also that of
//     the dead letters, a pattern of topics matches that of the dead letters, or access is denied;
//   - if an operator must act: access was withdrawn, the brokers have refused the credentials for 40 s, the
//     group uses another protocol, another process has the same InstanceID, a topic was deleted and created
//     again, or a batch can't be read at all. It drains first;
//   - if handlers did not return when it drained: idem.ErrOverrun (wrapped), with the records. The process
//     should then end. Their keys stay claimed until the lease ends.
//
// All other failures, of brokers, of the network and of the store, are logged and waited for. An error of a
// partition that lasts is an alarm: see PartitionStats.Failing.
func (c *Consumer) Run(ctx context.Context) error {
	handlers, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	m := newMember(&c.cfg)
	m.stream = c.processor.Stream(handlers, c.cfg.Cluster, m.settled)
	if !c.member.CompareAndSwap(nil, m) {
		m.stream.Close(ctx)
		return errors.New("consumer: Run was called before: create another Consumer")
	}
	defer c.ended.Store(true)
	alive, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	client, err := kgo.NewClient(slices.Concat(c.cfg.clientOptions(), m.callbacks(),
		[]kgo.Opt{kgo.WithContext(alive)})...)
	if err != nil {
		m.stream.Close(ctx)
		return fmt.Errorf("consumer: %w: Options: %w", idem.ErrInvalidConfig, err)
	}
	reading, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	m.abort = abort
	commits, cancelCommits := context.WithCancel(handlers)
	defer cancelCommits()
	k := keeper{member: m, client: client, commits: commits, stop: make(chan struct{})}
	k.start()
	if err = c.cfg.checkPatterns(client); err == nil {
		err = check(ctx, client, &c.cfg)
	}
	if err == nil {
		err = m.poll(reading, client)
	}
	return errors.Join(err, m.end(client, &k, cancel, cancelCommits, kill))
}

// end drains, commits and leaves the group. It returns the handlers that did not return.
func (m *member) end(client *kgo.Client, k *keeper, cancelHandlers, cancelCommits,
	kill context.CancelFunc) error {
	m.closing()
	client.AllowRebalance()

	drain, cancel := context.WithTimeout(context.Background(), m.cfg.DrainTimeout)
	defer cancel()
	hurry := time.AfterFunc(m.cfg.DrainTimeout*9/10, cancelHandlers) //nolint:mnd // documented at Config.DrainTimeout
	defer hurry.Stop()
	running := m.stream.Close(drain)

	last, cancelLast := context.WithTimeout(context.Background(), endTimeout)
	defer cancelLast()
	defer context.AfterFunc(last, func() { // the client does not end a request while it connects to a silent broker
		cancelCommits()
		kill()
	})()
	k.end()
	m.commitLast(last, client)
	m.leaving()
	m.leave(last, client, kill)
	client.Close()
	client.AllowRebalance() // Close polls, and a goroutine of its second attempt to leave would wait for ever
	return m.overrun(running)
}

// overrun logs the handlers that did not return, and returns an error that names their records.
func (m *member) overrun(running []*kafka.Message) error {
	if len(running) == 0 {
		return nil
	}
	const most = 10 // in the error; the log has all
	var sources []string
	for i, msg := range running {
		source := msg.Record.Source()
		m.log.Error("a handler did not return within the drain timeout: its record is delivered again",
			"source", source, "alarm", true)
		if i < most {
			sources = append(sources, source)
		}
	}
	return fmt.Errorf("consumer: %w: %d of them after %v: %s", idem.ErrOverrun, len(running),
		m.cfg.DrainTimeout, strings.Join(sources, ", "))
}

package consumer

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
)

// The defaults of Config.
const (
	DefaultCommitInterval   = 5 * time.Second
	DefaultDrainTimeout     = 20 * time.Second
	DefaultRevokeTimeout    = 10 * time.Second
	DefaultStartTimeout     = 30 * time.Second
	DefaultSessionTimeout   = 45 * time.Second
	DefaultPartitionRecords = 10_000
	DefaultPartitionBytes   = 16 << 20
	DefaultMaxRecords       = 100_000
	DefaultMaxBytes         = 64 << 20
)

// Times that are not configured.
const (
	// commitTimeout is how long one commit may take. A commit without an answer is sent again at the next
	// interval.
	commitTimeout = 10 * time.Second
	// endTimeout is how long the last commit and leaving the group may take together.
	endTimeout = 5 * time.Second
	// lastCommitTimeout is how long a commit is tried then, so that there is time to leave.
	lastCommitTimeout = endTimeout / 2
	// heartbeatInterval is the longest time between two heartbeats, as heartbeat.interval.ms of Kafka.
	heartbeatInterval = 3 * time.Second
	// errorPause is how long a partition is not fetched after an error.
	errorPause = 5 * time.Second
)

// The sizes of fetches, which are lowered if the records would not have room (see sizes.fetches). The client
// holds at most maxFetches × fetchBytes (64 MiB) of records that were fetched and not yet read into a window.
// A broker exceeds the limits for a single batch that is larger, so that it can be read.
const (
	fetchBytes          = 8 << 20
	fetchPartitionBytes = 1 << 20
	maxFetches          = 8
	fetchWait           = 500 * time.Millisecond
)

// Protocol is the protocol of the consumer group.
type Protocol uint8

// The protocols. All members of a group use the same one, except while it is changed.
const (
	// Classic: the members assign the partitions, cooperative-sticky by default.
	Classic Protocol = iota
	// Incremental: the brokers assign the partitions (KIP-848, group.protocol=consumer). Kafka 4.0 or later.
	Incremental
)

// Reset decides where to begin in a partition without a committed offset, and after the committed offset was
// deleted.
type Reset uint8

// The policies, as auto.offset.reset of Kafka.
const (
	// Earliest: at the first record that exists.
	Earliest Reset = iota
	// Fail: at the first record without a committed offset. If the committed offset was deleted, Run returns an
	// error.
	Fail
)

// Config configures a Consumer. Brokers, Topics and Group are required. The zero value of any other field
// stands for its default.
type Config struct {
	// Brokers are the addresses of some brokers, host:port. Topics are the topics to consume. Group is the
	// consumer group.
	Brokers []string
	Topics  []string
	Group   string
	// Options are other options of the Kafka client, such as TLS, SASL, kgo.Rack, or kgo.Balancers. They can
	// lower or raise the largest sizes of fetches, but not change how offsets are committed.
	Options []kgo.Opt
	// Records configures what is done with a record. The default of its Order is kafka.ByKey here, and the
	// defaults of its Namespace and Function are Group. To share keys with a Lambda function, set the
	// namespace to that of the function.
	Records kafka.Config
	// InstanceID makes the process a static member. It must be unique in the group and stay the same over
	// restarts. A restart within SessionTimeout causes no rebalance.
	InstanceID string
	// LeaveGroup makes a static member leave the group when Run ends. Other members always leave.
	LeaveGroup bool
	// Protocol is the protocol of the group (default: Classic).
	Protocol Protocol
	// SessionTimeout is how long the process may not reach the brokers before they give its partitions to
	// other members (default 45 s, as session.timeout.ms of Kafka). It is also how long the partitions of a
	// process that died wait. The process sends a heartbeat at least three times as often. The brokers bound
	// it, by default to 6 s to 30 min. With Protocol Incremental the brokers have a setting of their own
	// instead.
	SessionTimeout time.Duration
	// Reset decides where to begin without a valid committed offset (default: Earliest).
	Reset Reset
	// Cluster names the cluster in dead letters (default: the brokers, joined by commas).
	Cluster string

	// CommitInterval is the time between two commits (default 5 s, as enable.auto.commit of Kafka).
	CommitInterval time.Duration
	// RevokeTimeout is how long handlers may continue when their partition is revoked (default 10 s). The
	// group waits for it. The rebalance timeout of the group is 50 s longer.
	RevokeTimeout time.Duration
	// DrainTimeout is how long handlers may continue when Run is to end (default 20 s). Their contexts end
	// after nine tenths of it. Run returns at most 6 s later. An orchestrator must wait longer before it
	// kills the process, as Kubernetes does by default (30 s).
	DrainTimeout time.Duration
	// StartTimeout is how long the brokers may not answer when Run begins (default 30 s). Later failures of
	// brokers are waited for.
	StartTimeout time.Duration

	// PartitionRecords and PartitionBytes bound the window of a partition (defaults 10,000 and 16 MiB).
	// MaxRecords and MaxBytes bound all windows together (defaults 100,000 and 64 MiB): they are shared
	// equally by the assigned partitions, so that a partition that waits takes no room of others. All windows
	// together exceed MaxBytes by one record at most, or by one fetch if its records are larger than those
	// before. If records are larger than an eighth of a share, partitions that wait can take the room of
	// others, which then wait as well.
	//
	// The bytes are those of keys, values and headers, decompressed, and 1 KiB for each record. What is
	// fetched and not yet in a window takes as much again, and at most 64 MiB before decompression, or a
	// batch of each broker if that is more. How much batches grow when they are decompressed is estimated by
	// those before. So the defaults bound the memory of the records by about 200 MiB. After a crash at most
	// the records of the windows are delivered again.
	//
	// A lane that is slower than its records arrive fills its window sooner or later; from then on the
	// partition advances at the speed of the lane. Larger windows delay this.
	PartitionRecords, MaxRecords int
	PartitionBytes, MaxBytes     int64

	// Logger gets the consumer's lines (default: Records.Logger, else slog.Default()).
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Records.Order == 0 {
		c.Records.Order = kafka.ByKey
	}
	c.Records.Namespace = cmp.Or(c.Records.Namespace, c.Group)
	c.Records.Function = cmp.Or(c.Records.Function, c.Group)
	c.Logger = cmp.Or(c.Logger, c.Records.Logger, slog.Default())
	c.Records.Logger = cmp.Or(c.Records.Logger, c.Logger)
	c.Cluster = cmp.Or(c.Cluster, strings.Join(slices.Sorted(slices.Values(c.Brokers)), ","))
	c.CommitInterval = cmp.Or(c.CommitInterval, DefaultCommitInterval)
	c.RevokeTimeout = cmp.Or(c.RevokeTimeout, DefaultRevokeTimeout)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, DefaultDrainTimeout)
	c.StartTimeout = cmp.Or(c.StartTimeout, DefaultStartTimeout)
	c.SessionTimeout = cmp.Or(c.SessionTimeout, DefaultSessionTimeout)
	c.PartitionRecords = cmp.Or(c.PartitionRecords, DefaultPartitionRecords)
	c.PartitionBytes = cmp.Or(c.PartitionBytes, DefaultPartitionBytes)
	c.MaxRecords = cmp.Or(c.MaxRecords, DefaultMaxRecords)
	c.MaxBytes = cmp.Or(c.MaxBytes, DefaultMaxBytes)
	return c
}

func (c Config) validate() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(len(c.Brokers) > 0 && !slices.Contains(c.Brokers, ""),
		"Brokers is %q: want the addresses of some brokers, host:port", c.Brokers)
	bad(len(c.Topics) > 0 && !slices.Contains(c.Topics, ""), "Topics is %q: want the topics to consume",
		c.Topics)
	bad(c.Group != "", "Group is empty: want the name of the consumer group")
	bad(c.Protocol <= Incremental, "Protocol is %d: want Classic or Incremental", c.Protocol)
	bad(c.Reset <= Fail, "Reset is %d: want Earliest or Fail", c.Reset)
	bad(!c.LeaveGroup || c.InstanceID != "",
		"LeaveGroup is set without InstanceID: only a static member stays in the group without it")
	bad(!c.LeaveGroup || c.Protocol == Classic,
		"LeaveGroup is set with Protocol Incremental: a static member of such a group can't be made to leave")
	for _, f := range []struct {
		name string
		d    time.Duration
	}{
		{"CommitInterval", c.CommitInterval}, {"RevokeTimeout", c.RevokeTimeout},
		{"DrainTimeout", c.DrainTimeout}, {"StartTimeout", c.StartTimeout},
		{"SessionTimeout", c.SessionTimeout},
	} {
		bad(f.d > 0, "%s is %v: want more than 0", f.name, f.d)
	}
	for _, f := range []struct {
		name string
		n    int64
	}{
		{"PartitionRecords", int64(c.PartitionRecords)}, {"PartitionBytes", c.PartitionBytes},
		{"MaxRecords", int64(c.MaxRecords)}, {"MaxBytes", c.MaxBytes},
	} {
		bad(f.n > 0, "%s is %d: want 1 or more", f.name, f.n)
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("consumer: %w: %w", idem.ErrInvalidConfig, errors.Join(errs...))
}

// clientOptions returns the options of the Kafka client. Those before c.Options can be changed by them, those
// behind can't.
func (c Config) clientOptions() []kgo.Opt {
	reset := kgo.NewOffset().AtStart()
	if c.Reset == Fail {
		reset = kgo.NoResetOffset()
	}
	options := []kgo.Opt{
		kgo.ClientID("idemsk-consumer"),
		kgo.FetchMaxBytes(fetchBytes), kgo.FetchMaxPartitionBytes(fetchPartitionBytes),
		kgo.MaxConcurrentFetches(maxFetches), kgo.FetchMaxWait(fetchWait),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RebalanceTimeout(c.RevokeTimeout + 5*commitTimeout),
		kgo.SessionTimeout(c.SessionTimeout), kgo.HeartbeatInterval(min(heartbeatInterval, c.SessionTimeout/3)), //nolint:mnd // see Config.SessionTimeout
	}
	options = append(options, c.Options...)
	options = append(options,
		kgo.SeedBrokers(c.Brokers...), kgo.ConsumeTopics(c.Topics...), kgo.ConsumerGroup(c.Group),
		kgo.ConsumeResetOffset(reset), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.KeepControlRecords(),
	)
	if c.InstanceID != "" {
		options = append(options, kgo.InstanceID(c.InstanceID))
	}
	if c.Protocol == Incremental {
		options = append(options, kgo.ServerSideBalancer())
	}
	return options
}

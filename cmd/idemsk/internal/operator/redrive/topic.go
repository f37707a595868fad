package redrive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/kafkaclient"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/redrive/foreign"
	topicletters "github.com/idemsk/idemsk/kafka/deadletter/topic"
)

// topic is a source of letters in a Kafka topic. It reads those that were in the topic when the run began.
// What is done is committed for a consumer group, which has no members: a run is not part of a rebalance.
type topic struct {
	client *kgo.Client
	name   string
	group  string
	limit  time.Duration // for a request, and for a record to arrive

	parts map[int32]*part
	ready []*kgo.Record
}

// part is a partition with letters.
type part struct {
	progress
	next, end int64 // the next record to look at, and where the topic ended when the run began
	last      commit
	unsure    commit // the commit that was sent last: its reply may be lost
}

// commit is the progress of a partition as the group has it. The offset −1 is none.
type commit struct {
	offset   int64
	metadata string
}

// position is the place of a letter in the topic.
type position struct {
	partition int32
	offset    int64
}

var _ Source = (*topic)(nil)

// Group returns the consumer group that keeps what has been redriven of a topic of dead letters.
func Group(topic string) string { return "idemsk-redrive-" + topic }

// Letters returns the letters in a topic of the cluster that no earlier run has redriven. removed is how many
// of these, at most, the topic's retention removed.
func (k *Kafka) Letters(ctx context.Context, name string) (source Source, removed int64, err error) {
	client, err := kgo.NewClient(k.with(kgo.MaxVersions(versions()),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.KeepControlRecords(),
		kgo.RequestTimeoutOverhead(k.timeout/3), kgo.MaxConcurrentFetches(1))...)
	if err != nil {
		return nil, 0, fmt.Errorf("the Kafka client: %w", err)
	}
	t := &topic{client: client, name: name, group: Group(name), limit: k.timeout,
		parts: make(map[int32]*part)}
	if removed, err = t.begin(ctx); err != nil {
		client.Close()
		return nil, 0, fmt.Errorf("reading the dead letters of the topic %s: %w%s", name, err, t.hint(err))
	}
	return t, removed, nil
}

// versions returns the protocol of the newest brokers, except for commits: later versions of OffsetCommit
// can't say how long an offset is kept. By default brokers forget offsets seven days after the last commit,
// and letters would be redriven again.
// https://kafka.apache.org/documentation/#brokerconfigs_offsets.retention.minutes
func versions() *kversion.Versions {
	const commitWithRetention = 4
	v := kversion.Stable()
	v.SetMaxKeyVersion(int16(kmsg.OffsetCommit), commitWithRetention)
	return v
}

// keepOffsets is how long offsets are kept after a commit. Brokers delete those of a deleted topic at once.
const keepOffsets = 10 * 365 * 24 * time.Hour

// begin finds out where to begin and to end in each partition.
func (t *topic) begin(ctx context.Context) (removed int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.limit)
	defer cancel()
	admin := kadm.NewClient(t.client)
	starts, err := admin.ListStartOffsets(ctx, t.name)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return 0, err
	}
	ends, err := admin.ListEndOffsets(ctx, t.name)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return 0, err
	}
	commits, err := t.commits(ctx)
	if err != nil {
		return 0, err
	}
	from := make(map[int32]kgo.Offset)
	for number, end := range ends[t.name] {
		start := starts[t.name][number].Offset
		p, err := newPart(commits.of(number), start, end.Offset)
		if err != nil {
			return 0, fmt.Errorf("partition %d: %w", number, err)
		}
		removed += p.removed(start)
		if p.next < p.end {
			t.parts[number], from[number] = p, kgo.NewOffset().At(p.next)
		}
	}
	t.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{t.name: from})
	return removed, nil
}

func newPart(last commit, start, end int64) (*part, error) {
	p := &part{end: end, last: last, unsure: last}
	var err error
	if p.progress, err = readProgress(max(last.offset, 0), last.metadata); err != nil {
		return nil, err
	}
	if p.first > end {
		return nil, fmt.Errorf("the group's offset %d is after the end of the topic, %d: the topic was recreated: delete the group", p.first, end)
	}
	p.next = max(p.first, start)
	return p, nil
}

// removed marks what is before the start of the partition, and returns how much of it was not done. Without a
// commit, nothing is known about it.
func (p *part) removed(start int64) (n int64) {
	if p.last.offset >= 0 && start > p.first {
		n = start - p.first
		for _, s := range p.done {
			n -= max(0, min(s.to, start)-s.from)
		}
	}
	p.mark(0, start)
	return n
}

// commits are the commits of a group, by partition.
type commits map[int32]commit

// of returns a partition's commit, with the offset −1 if there is none.
func (c commits) of(partition int32) commit {
	if last, ok := c[partition]; ok {
		return last
	}
	return commit{offset: -1}
}

// commits returns the group's commits.
func (t *topic) commits(ctx context.Context) (commits, error) {
	var found kadm.OffsetResponses
	err := kafkaclient.Patiently(ctx, func(ctx context.Context) (err error) {
		if found, err = kadm.NewClient(t.client).FetchOffsetsForTopics(ctx, t.group, t.name); err == nil {
			err = found.Error()
		}
		return err
	})
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // the first commit creates the group
		return nil, fmt.Errorf("the offsets of the group %s: %w", t.group, err)
	}
	all := make(commits)
	for number, o := range found[t.name] {
		all[number] = commit{o.At, o.Metadata}
	}
	return all, nil
}

// Next implements Source.
func (t *topic) Next(ctx context.Context) (*Message, error) {
	for {
		for len(t.ready) > 0 {
			r := t.ready[0]
			t.ready = t.ready[1:]
			if p := t.parts[r.Partition]; p.accepts(r) {
				return fromRecord(r), nil
			}
		}
		if t.ended() {
			return nil, io.EOF
		}
		if err := t.poll(ctx); err != nil {
			return nil, fmt.Errorf("reading the dead letters of the topic %s: %w%s", t.name, err, t.hint(err))
		}
	}
}

// marker is the first header of a letter of idemsk. Its record may have headers of Spring from before.
const marker = "idemsk-dead-letter"

func fromRecord(r *kgo.Record) *Message {
	m := &Message{Name: fmt.Sprintf("%s-%d@%d", r.Topic, r.Partition, r.Offset),
		at: position{r.Partition, r.Offset}}
	if !slices.ContainsFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == marker }) {
		if l, ok, err := foreign.ParseSpring(r); ok {
			m.Letter, m.Err = l, err
			return m
		}
		if f, ok, err := foreign.ParseOnFailure(r.Value); ok {
			m.setOnFailure(f, err)
			return m
		}
	}
	m.Letter, m.Err = topicletters.Parse(r)
	return m
}

// accepts reports whether a record is to be redriven. Offsets without a record, and control records, are
// marked as done, so that they do not divide the letters that are.
func (p *part) accepts(r *kgo.Record) bool {
	if r.Offset >= p.end {
		p.next = p.end
		return false
	}
	p.mark(p.next, r.Offset)
	p.next = r.Offset + 1
	if r.Attrs.IsControl() {
		p.mark(r.Offset, p.next)
	}
	return !p.has(r.Offset)
}

func (t *topic) ended() bool {
	for _, p := range t.parts {
		if p.next < p.end {
			return false
		}
	}
	return true
}

func (t *topic) poll(ctx context.Context) error {
	const atOnce = 100
	ctx, cancel := context.WithTimeout(ctx, t.limit)
	defer cancel()
	fetches := t.client.PollRecords(ctx, atOnce)
	t.ready = fetches.Records()
	if len(t.ready) > 0 {
		return nil
	}
	for _, e := range fetches.Errors() {
		return e.Err
	}
	return ctx.Err()
}

var errOtherRun = errors.New("another run has redriven letters of this topic meanwhile: run it again when no other is in progress")

// Begin returns an error if the letter could not be marked as done afterwards. There is no limit of time.
func (t *topic) Begin(ctx context.Context, m *Message) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, t.limit)
	defer cancel()
	p := t.parts[m.at.partition]
	after := p.clone()
	after.mark(m.at.offset, m.at.offset+1)
	if len(after.metadata()) > maxMetadata {
		return time.Time{}, fmt.Errorf("a consumer group can't keep so many separate letters of a "+
			"partition: first redrive the letters from %s-%d@%d on, without --of-function, --of-cluster and --key, or fix why they are not redriven",
			t.name, m.at.partition, p.first)
	}
	commits, err := t.commits(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w%s", err, t.hint(err))
	}
	if found := commits.of(m.at.partition); found != p.last && found != p.unsure {
		return time.Time{}, errOtherRun
	}
	return time.Time{}, nil
}

// Done commits that a letter is done.
func (t *topic) Done(ctx context.Context, m *Message) error {
	ctx, cancel := context.WithTimeout(ctx, t.limit)
	defer cancel()
	p := t.parts[m.at.partition]
	p.mark(m.at.offset, m.at.offset+1)
	next := commit{p.first, p.metadata()}
	p.unsure = next
	part := kmsg.NewOffsetCommitRequestTopicPartition()
	part.Partition, part.Offset, part.Metadata = m.at.partition, next.offset, &next.metadata
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic, topic.Partitions = t.name, append(topic.Partitions, part)
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.RetentionTimeMillis, req.Topics = t.group, keepOffsets.Milliseconds(), append(req.Topics,
		topic)
	resp, err := req.RequestWith(ctx, t.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("committing the offset of %s for the group %s: %w%s", m.Name, t.group, err,
			t.hint(err))
	}
	p.last = next
	return nil
}

// Close ends the connections. The letters that are not done stay.
func (t *topic) Close(context.Context) error {
	t.client.Close()
	return nil
}

func (t *topic) hint(err error) string {
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return " (the cluster has no such topic: check --dead-letter-topic and --brokers)"
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return " (this user may not read the topic)"
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return " (this user may not use the group " + t.group + ": it needs Describe and Read on it)"
	case errors.Is(err, kerr.OffsetOutOfRange):
		return " (retention removed letters during this run: run it again)"
	case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.RebalanceInProgress),
		errors.Is(err, kerr.IllegalGeneration):
		return " (a consumer is a member of the group " + t.group +
			": stop it, as the group is for idemsk redrive)"
	case errors.Is(err, errMetadata):
		return " (another tool has used the group " + t.group +
			": reset its offsets without metadata, or delete it)"
	case errors.Is(err, context.DeadlineExceeded):
		return " (no response in time)"
	}
	return ""
}

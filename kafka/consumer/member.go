package consumer

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/kafka"
)

// member is a Consumer that runs: a member of the group, with its partitions.
//
// The client calls assigned, adjusted, revoked and lost one after another, and never while records are being
// read (kgo.BlockRebalanceOnPoll).
type member struct {
	cfg    *Config
	log    *slog.Logger
	seldom *limiter
	sizes  *sizes
	stream *kafka.Stream
	wake   chan struct{} // a partition can be resumed
	added  chan struct{} // partitions were assigned, and their committed offsets are known

	records []kafka.Record // of a partition, while read adds them; it alone uses them

	// held from the collection of offsets until they are committed, and while partitions are removed
	commits gate

	mu          sync.Mutex // guards the fields below and the partitions
	partitions  map[place]*partition
	joined      bool              // since the last loss
	ending      bool              // Run is about to end
	left        bool              // the last offsets were committed
	missing     map[string]*fault // by the topics of Config.Topics that do not exist
	credentials fault             // that the brokers refuse them
	abort       func(cause error) // ends Run
	alive       time.Time         // when the keeper was last seen
	used        int64             // bytes of all windows
	crowded     bool              // used has reached the bound, and there is no room yet

	// Used by the client's callbacks alone.
	client *kgo.Client // set by assigned, which is called first
}

// gate is a lock that is held while a request is in progress. Who waits for a sync.Mutex stops the virtual
// time of tests, in which the request ends.
type gate chan struct{}

func (g gate) lock()   { g <- struct{}{} }
func (g gate) unlock() { <-g }

// place is a partition of a topic.
type place struct {
	topic     string
	partition int32
}

func (at place) compare(other place) int {
	return cmp.Or(cmp.Compare(at.topic, other.topic), cmp.Compare(at.partition, other.partition))
}

// partition is an assigned partition.
type partition struct {
	window    window
	confirmed int64     // the committed offset, as the broker confirmed it; -1 if it is unknown
	doubt     time.Time // until then, confirmed may be changed by a commit that was not answered
	placed    bool      // where its reading begins was decided: confirmed, or start
	from      int64     // where its reading begins: confirmed, or the start then; -1 if it is unknown
	start     int64     // the first record that exists; -1 if it is unknown
	end       int64     // the offset after the last record that may be read; -1 if it is unknown
	beyond    int64     // end, if the last survey found an earlier one
	deleted   deleted
	paused    bool
	notBefore time.Time // it stays paused until then
	faults    faults
	// the topic that the client reads does not exist any more, or is another one with the same name: nothing
	// is committed
	gone    bool
	topicID [16]byte // of the topic that is gone, if it is known
}

// next returns the offset of the next record to read.
func (p *partition) next() int64 {
	switch {
	case p.window.last >= 0:
	case p.from >= 0:
		return p.from
	default:
		return max(0, p.start)
	}
	return p.window.last + 1
}

// source names the next record to read as errors name a record.
func (p *partition) source(at place) string {
	return fmt.Sprintf("%s-%d@%d", at.topic, at.partition, p.next())
}

func newMember(cfg *Config) *member {
	return &member{
		cfg: cfg, log: cfg.Logger.With("group", cfg.Group), seldom: newLimiter(), sizes: newSizes(),
		commits: make(gate, 1), wake: make(chan struct{}, 1), added: make(chan struct{}, 1),
		partitions: make(map[place]*partition), missing: make(map[string]*fault), alive: time.Now(),
	}
}

func (m *member) callbacks() []kgo.Opt {
	return []kgo.Opt{
		kgo.OnPartitionsAssigned(m.assigned), kgo.AdjustFetchOffsetsFn(m.adjusted),
		kgo.OnPartitionsRevoked(m.revoked), kgo.OnPartitionsLost(m.lost),
		kgo.WithHooks(m.sizes),
	}
}

func (m *member) assigned(ctx context.Context, client *kgo.Client, added map[string][]int32) {
	m.client = client
	m.mu.Lock()
	defer m.mu.Unlock()
	m.joined, m.credentials = true, fault{}
	for _, at := range places(added) {
		m.partitions[at] = &partition{window: newWindow(-1), confirmed: -1, from: -1, start: -1, end: -1, beyond: -1}
	}
	m.pauseAll(client)
	if len(added) > 0 {
		m.log.InfoContext(ctx, "partitions assigned", "assigned", added, "total", len(m.partitions))
	}
}

// adjusted takes note of the committed offsets of partitions that are about to be read.
func (m *member) adjusted(ctx context.Context,
	offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	if err := m.fixPositions(ctx, offsets); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for topic, partitions := range offsets {
		for number, offset := range partitions {
			p, at := m.partitions[place{topic, number}], offset.EpochOffset().Offset
			if p == nil {
				continue
			}
			if p.placed = true; at >= 0 && p.window.last < 0 {
				p.window.last, p.confirmed, p.from = at-1, at, at
			}
		}
	}
	notify(m.added)
	return offsets, nil
}

// revoked gives partitions back: it ends what runs, within Config.RevokeTimeout, and commits what is settled.
// If Run is about to end, Run waits for what runs.
func (m *member) revoked(ctx context.Context, client *kgo.Client, revoked map[string][]int32) {
	ending, left := m.state()
	if len(revoked) == 0 || left {
		return
	}
	m.log.InfoContext(ctx, "partitions revoked", "revoked", revoked)
	commitWithin := commitTimeout
	if ending {
		commitWithin = lastCommitTimeout
	} else {
		m.finish(ctx, revoked)
	}
	m.commits.lock()
	defer m.commits.unlock()
	ctx, cancel := context.WithTimeout(ctx, commitWithin)
	defer cancel()
	m.send(ctx, client, m.uncommitted(time.Now(), revoked))
	m.remove(client, revoked)
}

// finish ends what runs of revoked partitions, within Config.RevokeTimeout.
func (m *member) finish(ctx context.Context, revoked map[string][]int32) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.RevokeTimeout)
	defer cancel()
	for _, msg := range m.stop(ctx, revoked) {
		m.log.WarnContext(ctx, "a handler still runs after its partition was revoked: the new owner receives the record, and waits for its key",
			"source", msg.Record.Source())
	}
}

// lost drops partitions that another member may have already.
func (m *member) lost(ctx context.Context, client *kgo.Client, lost map[string][]int32) {
	m.mu.Lock()
	m.joined = false
	ending, left := m.ending, m.left
	m.mu.Unlock()
	if len(lost) == 0 || left {
		return
	}
	var running []*kafka.Message // Run waits for them if it is about to end
	if !ending {
		running = m.stop(ended(), lost)
	}
	m.log.WarnContext(ctx, "partitions lost: their records are delivered again to the new owners, and nothing is committed",
		"lost", lost, "handlersRunning", len(running))
	m.commits.lock()
	defer m.commits.unlock()
	m.remove(client, lost)
}

// stop removes the records of partitions from the stream. It returns those whose handlers still run when ctx
// ends.
func (m *member) stop(ctx context.Context, of map[string][]int32) (running []*kafka.Message) {
	var all sync.WaitGroup
	var mu sync.Mutex
	for _, at := range places(of) {
		all.Go(func() {
			left := m.stream.Revoke(ctx, at.topic, at.partition)
			mu.Lock()
			defer mu.Unlock()
			running = append(running, left...)
		})
	}
	all.Wait()
	return running
}

// remove forgets partitions. The caller holds commits.
func (m *member) remove(client *kgo.Client, gone map[string][]int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, at := range places(gone) {
		if p := m.partitions[at]; p != nil {
			m.change(p, func(w *window) { *w = newWindow(-1) })
			delete(m.partitions, at)
		}
	}
	client.ResumeFetchPartitions(gone) // the client remembers pauses beyond the assignment
}

func (m *member) closing() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ending = true
}

// leaving takes note that the last offsets were committed.
func (m *member) leaving() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left = true
}

func (m *member) state() (ending, left bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ending, m.left
}

// settled is called by the stream.
func (m *member) settled(msg *kafka.Message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.partitions[place{msg.Record.Topic, msg.Record.Partition}]
	if p == nil {
		return
	}
	m.change(p, func(w *window) { w.settle(msg.Record.Offset, time.Now()) })
	if p.paused && m.drained(p) || m.crowded && m.roomy() {
		notify(m.wake)
	}
}

// notify wakes the keeper, or leaves a note for it.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// places returns the partitions of a map as the client has them.
func places(of map[string][]int32) []place {
	var all []place
	for topic, partitions := range of {
		for _, number := range partitions {
			all = append(all, place{topic, number})
		}
	}
	return all
}

// ended returns a context that has ended.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

package consumer

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Stats is the state of a consumer.
type Stats struct {
	// Joined reports whether the process is a member of the group.
	Joined bool
	// Retrying is how many lanes wait to try a record again, and Blocked how many of these wait for an
	// operator: because no dead letters are configured or they can't be sent, or because the entry of the key
	// can't be read.
	Retrying, Blocked int
	// Partitions are the assigned partitions, sorted.
	Partitions []PartitionStats
	// Missing are topics of Config.Topics that do not exist, none of whose partitions is assigned, sorted.
	Missing []TopicStats
}

// TopicStats is the state of a topic that does not exist.
type TopicStats struct {
	Topic   string
	Missing time.Duration // since it was noticed
}

// PartitionStats is the state of an assigned partition.
type PartitionStats struct {
	Topic     string
	Partition int32
	// Records and Bytes are those of the window: from the first record that is not settled to the last that
	// was read.
	Records int
	Bytes   int64
	// Lag is the number of offsets between the first record that is not settled and the end of the partition,
	// as of the last fetch; -1 for the moment between the assignment and the first answer of the brokers.
	Lag int64
	// Failing is for how long it has not been possible to read the partition, or to commit its offset, and
	// Failure the last error; 0 and nil if there is none. From half a minute on the log has an alarm.
	Failing time.Duration
	Failure error
	// Paused reports whether the partition is not fetched, because its window is full or after an error.
	Paused bool
	// Waiting is how long the first unsettled record has been the first; 0 if all records that were read are
	// settled.
	Waiting time.Duration
}

// Stats returns the state of the consumer.
func (c *Consumer) Stats() Stats {
	m := c.member.Load()
	if m == nil {
		return Stats{}
	}
	retrying, blocked := m.stream.Retrying()
	m.mu.Lock()
	defer m.mu.Unlock()
	now, s := time.Now(), Stats{Joined: m.joined && !m.ending, Retrying: retrying, Blocked: blocked}
	faults := make(map[place]fault)
	for _, f := range m.failing(now) {
		if faults[f.at] = f.fault; f.at.partition < 0 {
			s.Missing = append(s.Missing, TopicStats{f.at.topic, now.Sub(f.fault.since)})
		}
	}
	for at, p := range m.partitions {
		stats := PartitionStats{Topic: at.topic, Partition: at.partition, Records: p.window.open(),
			Bytes: p.window.bytes, Lag: p.lag(), Paused: p.paused}
		if stats.Records > 0 {
			stats.Waiting = now.Sub(p.window.since)
		}
		if f, ok := faults[at]; ok {
			stats.Failing, stats.Failure = now.Sub(f.since), f.err
		}
		s.Partitions = append(s.Partitions, stats)
	}
	slices.SortFunc(s.Partitions, func(a, b PartitionStats) int {
		return place{a.Topic, a.Partition}.compare(place{b.Topic, b.Partition})
	})
	return s
}

// staleAfter is the time after which a keeper that was not seen is stuck. A commit and a rebalance take less.
const staleAfter = time.Minute

// Live returns an error if Run has ended, or if the consumer does not make its regular commits, so that the
// process should be started again. It is nil before Run.
func (c *Consumer) Live() error {
	m := c.member.Load()
	if m == nil {
		return nil
	}
	if c.ended.Load() {
		return errors.New("consumer: Run has ended")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if idle := time.Since(m.alive); idle > staleAfter+m.cfg.RevokeTimeout {
		return fmt.Errorf("consumer: no commit and no check of the partitions for %v",
			idle.Round(time.Second))
	}
	return nil
}

// Ready returns an error if the process is not a member of the group.
func (c *Consumer) Ready() error {
	if err := c.Live(); err != nil {
		return err
	}
	if !c.Stats().Joined {
		return errors.New("consumer: not a member of the group: Run has not joined it yet, has lost it, or is about to end")
	}
	return nil
}

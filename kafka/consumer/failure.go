package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ErrOperator means that the consumer can't continue before an operator has changed something. The error says
// what.
var ErrOperator = errors.New("consumer: an operator must act")

// operatorError returns an error after which an operator must act, nil for any other.
func operatorError(err error) error {
	if errors.Is(err, ErrOperator) {
		return err
	}
	return nil
}

// failed handles the error of a fetch, or of the group, whose topic is empty. It returns the error if Run
// must end.
func (m *member) failed(ctx context.Context, client *kgo.Client, f *kgo.FetchTopicPartition) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, at := time.Now(), place{f.Topic, f.Partition}
	p := m.partitions[at]
	where := m.where(at, p)
	var loss *kgo.ErrDataLoss
	switch advice := m.advice(f.Err); {
	case errors.As(f.Err, &loss):
		m.log.ErrorContext(ctx, "the brokers lost records that were read: reading continues at the offset resetTo", "topic", f.Topic, "partition", f.Partition,
			"readTo", loss.ConsumedTo, "resetTo", loss.ResetTo, "alarm", true)
		return nil
	case advice != "":
		return fmt.Errorf("%w: %s: %s: %w", ErrOperator, where, advice, f.Err)
	}
	m.seldom.warn(m.log, fmt.Sprint(f.Topic, "-", f.Partition), "reading failed and is tried again", "where",
		where, "error", f.Err)
	switch {
	case p != nil:
		p.faults.reading.note(f.Err, now)
		p.gone = p.gone || errors.Is(f.Err, kerr.UnknownTopicID)
		m.pause(client, at, p, now.Add(errorPause))
	case at == place{"", -1}: // of a broker, any of whose partitions may wait
		for _, p := range m.partitions {
			if p.lag() > 0 {
				p.faults.reading.note(f.Err, now)
			}
		}
	case f.Topic == "":
		return m.refused(f.Err, now)
	}
	return nil
}

// where names what an error is about.
func (m *member) where(at place, p *partition) string {
	switch {
	case p != nil:
		return p.source(at)
	case at == place{"", -1}:
		return "a broker"
	case at.topic == "":
		return fmt.Sprintf("group %q", m.cfg.Group)
	}
	return fmt.Sprintf("%s-%d", at.topic, at.partition)
}

// advice returns what the operator must do about an error, or "" if it passes by itself.
func (m *member) advice(err error) string {
	var large *kgo.ErrDecompressTooLarge
	if errors.As(err, &large) {
		return fmt.Sprintf("the batch at offset %d is too large to be decompressed: raise kgo.MaxDecompressBatchBytes, or commit the offset behind it "+
			"(kafka-consumer-groups.sh --reset-offsets) to skip it", large.Offset)
	}
	for _, known := range []struct {
		err    error
		advice string
	}{
		{kerr.TopicAuthorizationFailed, "allow the principal to describe and read the topic"},
		{kerr.GroupAuthorizationFailed, "allow the principal to read and describe the group"},
		{kerr.ClusterAuthorizationFailed, "allow the principal the operation on the cluster"},
		{kerr.InconsistentGroupProtocol,
			"the members of the group use other balancers or another protocol: use the same, or another group"},
		{kerr.FencedInstanceID, "another process has the instance ID " + m.cfg.InstanceID +
			": each process of the group needs its own"},
		{kerr.InvalidGroupID, "want a valid group"},
		{kerr.InvalidSessionTimeout, "SessionTimeout (IDEMSK_KAFKA_SESSION_TIMEOUT) is outside the bounds of the brokers, " +
			"group.min.session.timeout.ms and group.max.session.timeout.ms"},
		{kerr.GroupMaxSizeReached, "the group has as many members as the brokers allow, group.max.size: start fewer processes"},
		{kerr.UnsupportedVersion, "the brokers are too old for this configuration"},
		{kerr.UnsupportedAssignor, "the brokers do not have the assignor: want kgo.StickyBalancer or kgo.RangeBalancer"},
		{kerr.InvalidTopicException, "the name of the topic is invalid"},
		{kerr.OffsetOutOfRange, "the committed offset does not exist, and Reset is Fail: commit another offset (kafka-consumer-groups.sh --reset-offsets)"},
	} {
		if errors.Is(err, known.err) {
			return known.advice
		}
	}
	return ""
}

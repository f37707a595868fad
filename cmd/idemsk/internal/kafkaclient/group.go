package kafkaclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Times of requests about a group. For its first consumer group, a broker creates the topic of offsets, and
// refuses requests until then.
const (
	groupTimeout = 30 * time.Second
	groupRetry   = 200 * time.Millisecond
)

// Patiently repeats a request about a group while the brokers answer with a retriable error: the coordinator
// of a cluster's first group is not available at once.
func Patiently(ctx context.Context, ask func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, groupTimeout)
	defer cancel()
	for {
		err := ask(ctx)
		var refused *kerr.Error
		if err == nil || ctx.Err() != nil || !errors.As(err, &refused) || !refused.Retriable {
			return err
		}
		pause := time.NewTimer(groupRetry)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
}

// Group returns a consumer group. One that does not exist yet has no members.
func Group(ctx context.Context, admin *kadm.Client, name string) (group kadm.DescribedGroup, err error) {
	err = Patiently(ctx, func(ctx context.Context) error {
		described, err := admin.DescribeGroups(ctx, name)
		if group = described[name]; err == nil && !errors.Is(group.Err, kerr.GroupIDNotFound) {
			err = group.Err
		}
		return err
	})
	if err != nil {
		return group, fmt.Errorf("the consumer group %s: %w", name, err)
	}
	return group, nil
}

// CheckIdle returns an error if a consumer group has members: they would read the records that another one
// is to read, or overwrite its offsets.
func CheckIdle(ctx context.Context, admin *kadm.Client, name string) error {
	group, err := Group(ctx, admin, name)
	if n := len(group.Members); err == nil && n > 0 {
		return fmt.Errorf("the consumer group %s has %d active members, the first from %s: stop them, or name another group with --consumer-group-id",
			name, n, group.Members[0].ClientHost)
	}
	return err
}

// Committed returns the offsets of a consumer group in a topic, by partition. A group that does not exist yet
// has none.
func Committed(ctx context.Context, admin *kadm.Client, group, topic string) (map[int32]int64, error) {
	var found kadm.OffsetResponses
	err := Patiently(ctx, func(ctx context.Context) (err error) {
		found, err = admin.FetchOffsets(ctx, group)
		return err
	})
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, fmt.Errorf("the offsets of the consumer group %s: %w", group, err)
	}
	committed := make(map[int32]int64)
	for partition, offset := range found[topic] {
		if offset.At >= 0 {
			committed[partition] = offset.At
		}
	}
	return committed, nil
}

// Commit commits the next offsets in a topic, for a consumer group without members.
func Commit(ctx context.Context, admin *kadm.Client, group, topic string, next map[int32]int64) error {
	var offsets kadm.Offsets
	for partition, at := range next {
		offsets.AddOffset(topic, partition, at, -1)
	}
	err := Patiently(ctx, func(ctx context.Context) error {
		answers, err := admin.CommitOffsets(ctx, group, offsets)
		if err == nil {
			err = answers.Error()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("committing offsets of %s for the consumer group %s: %w%s", topic, group, err,
			commitHint(err))
	}
	return nil
}

func commitHint(err error) string {
	if errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.RebalanceInProgress) ||
		errors.Is(err, kerr.IllegalGeneration) {
		return " (another consumer has joined the group: stop it, or name another group with --consumer-group-id)"
	}
	return ""
}

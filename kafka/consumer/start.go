package consumer

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
)

// checkLetters returns an error if the dead letters are sent to a topic that is consumed: each letter would
// become another one. With patterns, it returns one also if the topic does not exist yet.
func (c Config) checkLetters(patterns bool, excluded []string) error {
	letters := kafka.DestinationOf(c.Records.DeadLetters).Topic
	consumes := func(topic string) bool { return topic == letters || patterns && matches(topic, letters) }
	i := slices.IndexFunc(c.Topics, consumes)
	if letters == "" || i < 0 || slices.ContainsFunc(excluded, func(p string) bool { return matches(p, letters) }) {
		return nil
	}
	return fmt.Errorf("consumer: %w: the dead letters are sent to the topic %q, which is consumed, because Topics has %q: "+
		"each would become another one: want another topic for them (IDEMSK_DEAD_LETTER_TOPIC)", idem.ErrInvalidConfig, letters, c.Topics[i])
}

// checkPatterns is checkLetters for the patterns that options of the client make of the topics.
func (c Config) checkPatterns(client *kgo.Client) error {
	patterns, _ := client.OptValue(kgo.ConsumeRegex).(bool)
	if !patterns {
		return nil
	}
	excluded, _ := client.OptValue(kgo.ConsumeExcludeTopics).([]string)
	return c.checkLetters(true, excluded)
}

// matches reports whether the client takes a topic for one that a pattern names.
func matches(pattern, topic string) bool {
	expression, err := regexp.Compile(pattern)
	return err == nil && expression.MatchString(topic) // the client refuses an invalid one
}

// startPause is the time between two attempts to reach the brokers.
const startPause = 500 * time.Millisecond

// check checks that brokers answer within Config.StartTimeout, that the topics can be read, and that there is
// a destination for dead letters, if it can be checked. When ctx ends, it returns nil.
func check(ctx context.Context, client *kgo.Client, cfg *Config) error {
	limit, cancel := context.WithTimeout(ctx, cfg.StartTimeout)
	defer cancel()
	for {
		err := checkTopics(limit, client, cfg)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			return checkDestination(limit, cfg)
		}
		if errors.Is(err, ErrOperator) {
			return err
		}
		select {
		case <-time.After(startPause):
		case <-limit.Done():
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("consumer: no broker of %s answered within %v: check the addresses, TLS and credentials, and that the brokers are running: %w",
				strings.Join(cfg.Brokers, ","), cfg.StartTimeout, err)
		}
	}
}

// checkDestination checks the destination of the dead letters.
func checkDestination(ctx context.Context, cfg *Config) error {
	letters, ok := cfg.Records.DeadLetters.(interface {
		Check(ctx context.Context) error
	})
	if !ok {
		return nil
	}
	err, late := await(ctx, func() (error, error) { return letters.Check(ctx), nil })
	if late != nil || err == nil {
		return nil //nolint:nilerr // it may answer before the first letter
	}
	return fmt.Errorf("%w: %w", ErrOperator, err)
}

// topicsRequest returns a request for the metadata of the topics. With patterns, its topics are nil, which
// requests those of all.
func topicsRequest(client *kgo.Client, cfg *Config) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation, _ = client.OptValue(kgo.AllowAutoTopicCreation).(bool)
	if patterns, _ := client.OptValue(kgo.ConsumeRegex).(bool); patterns {
		return req
	}
	for _, topic := range cfg.Topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &topic
		req.Topics = append(req.Topics, t)
	}
	return req
}

// await makes a request, and returns when ctx ends: the client does not while it connects.
func await[T any](ctx context.Context, request func() (T, error)) (answer T, err error) {
	done := make(chan struct{})
	var late T
	var lateErr error
	go func() {
		defer close(done)
		late, lateErr = request()
	}()
	select {
	case <-done:
		return late, lateErr
	case <-ctx.Done():
		return answer, context.Cause(ctx)
	}
}

// checkTopics requests the metadata of the topics once.
func checkTopics(ctx context.Context, client *kgo.Client, cfg *Config) error {
	req := topicsRequest(client, cfg)
	if req.Topics == nil { // patterns: the answer of a broker is enough
		req.Topics = []kmsg.MetadataRequestTopic{}
	}
	resp, err := await(ctx, func() (*kmsg.MetadataResponse, error) { return req.RequestWith(ctx, client) })
	switch {
	case refusesPassword(err):
		return fmt.Errorf("%w: the brokers refuse the credentials: %s: %w", ErrOperator, credentialsAdvice, err)
	case err != nil:
		return err
	}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		name := ""
		if t.Topic != nil {
			name = *t.Topic
		}
		switch err := kerr.ErrorForCode(t.ErrorCode); {
		case errors.Is(err, kerr.UnknownTopicOrPartition):
			return fmt.Errorf("%w: topic %q does not exist: create it, or correct the name: %w", ErrOperator,
				name, err)
		case errors.Is(err, kerr.TopicAuthorizationFailed):
			return fmt.Errorf("%w: topic %q: allow the principal to describe and read it: %w", ErrOperator,
				name, err)
		case errors.Is(err, kerr.InvalidTopicException):
			return fmt.Errorf("%w: topic %q: the name is invalid: %w", ErrOperator, name, err)
		}
	}
	return nil
}

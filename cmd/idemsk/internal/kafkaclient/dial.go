// Package kafkaclient connects to a cluster, for the verbs that read or write a topic.
package kafkaclient

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/kafka"
)

// CheckTopic returns an error if Kafka takes no topic of that name.
func CheckTopic(name string) error {
	if !kafka.ValidTopic(name) {
		return fmt.Errorf("the topic is %q: want %s", name, kafka.TopicNameRule)
	}
	return nil
}

// DialTimeout bounds how long Dial waits for a broker, however many are named.
const DialTimeout = 5 * time.Second

// Dial returns a client that a broker has answered. The caller closes it. Its error says where it asked, and
// what to do.
func Dial(ctx context.Context, brokers []string, opts ...kgo.Opt) (*kgo.Client, error) {
	client, err := kgo.NewClient(append(slices.Clone(opts), kgo.SeedBrokers(brokers...))...)
	if err != nil {
		return nil, fmt.Errorf("the Kafka client: %w", err)
	}
	limited, cancel := context.WithTimeoutCause(ctx, DialTimeout,
		fmt.Errorf("no answer within %v", DialTimeout))
	defer cancel()
	// Ping itself heeds no context while it connects.
	stop := context.AfterFunc(limited, client.Close)
	if err = client.Ping(limited); err == nil && stop() {
		return client, nil
	}
	if !stop() && ctx.Err() == nil {
		err = context.Cause(limited)
	}
	client.Close()
	return nil, fmt.Errorf("no Kafka broker answers at %s: start one, or check the address, and whether the listener needs --tls or --auth: %w",
		strings.Join(brokers, ","), err)
}

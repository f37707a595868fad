package clitest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// NewCluster starts a cluster with the topics of the options. It does not create topics automatically.
func NewCluster(t *testing.T, opts ...kfake.Opt) (brokers string) {
	t.Helper()
	loopback := func(network, _ string) (net.Listener, error) { return net.Listen(network, "127.0.0.1:0") }
	c, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1), kfake.ListenFn(loopback))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return strings.Join(c.ListenAddrs(), ",")
}

// ReadTopic reads the first n records of a topic, as "key value header=value".
func ReadTopic(t *testing.T, brokers, topic string, n int) (records []string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers), kgo.ConsumeTopics(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Minute, errors.New("there are fewer records"))
	defer cancel()
	for len(records) < n {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		for _, r := range fetches.Records() {
			text := fmt.Sprintf("%s %s", r.Key, r.Value)
			if r.Value == nil {
				text = string(r.Key) + " tombstone"
			}
			for _, h := range r.Headers {
				text += fmt.Sprintf(" %s=%s", h.Key, h.Value)
			}
			records = append(records, text)
		}
	}
	return records
}

// CreateTopic creates the topic.
func CreateTopic(t *testing.T, cluster *kfake.Cluster, name string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), 1, 1, nil, name); err != nil {
		t.Fatal(err)
	}
}

// Consume returns the values of the topic by key, in order.
func Consume(t *testing.T, brokers string, n int) map[string][]string {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers), kgo.ConsumeTopics("credited"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	values := map[string][]string{}
	for seen := 0; seen < n && ctx.Err() == nil; {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			seen++
			values[string(r.Key)] = append(values[string(r.Key)], string(r.Value))
		})
	}
	return values
}

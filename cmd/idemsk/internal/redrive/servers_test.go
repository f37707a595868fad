//go:build servers

package redrive_test

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/redrive"
	"github.com/idemsk/idemsk/internal/serverproc"
	"github.com/idemsk/idemsk/kafka/topicdlq"
)

// On a real Kafka: two runs redrive each letter once, and the broker keeps their commits for years.
func TestTopicOfARealKafka(t *testing.T) {
	server, err := serverproc.StartScript(t.Context(), serverproc.Kafka)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	brokers := kgo.SeedBrokers(server.Addr())
	client, err := kgo.NewClient(brokers)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	for topic, partitions := range map[string]int32{deadLetters: 1, "payments": 3} {
		if _, err := admin.CreateTopic(t.Context(), partitions, 1, nil, topic); err != nil {
			t.Fatal(err)
		}
		awaitTopic(t, admin, topic)
	}
	topic, err := topicdlq.New(topicdlq.Config{Topic: deadLetters, Options: []kgo.Opt{brokers}})
	if err != nil {
		t.Fatal(err)
	}
	defer topic.Close()
	const n = 6
	for _, l := range lettersFrom(n) {
		if err := topic.Send(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	k, err := redrive.Dial(t.Context(), redrive.Cluster{Brokers: []string{server.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	refusing := &listDestination{refuse: map[int64]bool{1: true, 3: true}}
	runAll(t, redrive.Options{Source: openTopic(t, k), Destination: refusing})
	results, _ := runAll(t, redrive.Options{Source: openTopic(t, k), Destination: k})
	if got := outcomes(results); len(refusing.sent) != n-2 || got != "dead-letters-0@1 redriven, dead-letters-0@3 redriven" {
		t.Errorf("the first run sent %v, the second one: %s", refusing.sent, got)
	}
	if results, _ := runAll(t, redrive.Options{Source: openTopic(t, k), Destination: k}); len(results) != 0 {
		t.Errorf("the third run: %s", outcomes(results))
	}
	if last := lastCommit(t, brokers); last.Offset != n || last.Metadata != "" || time.UnixMilli(last.ExpireTimestamp).Before(time.Now().AddDate(9, 0, 0)) {
		t.Errorf("the broker keeps the commit %+v; want the offset %d for ten years", last, n)
	}
}

// lastCommit reads the group's last commit, that of all letters, from the topic in which brokers keep commits.
func lastCommit(t *testing.T, brokers kgo.Opt) (v kmsg.OffsetCommitValue) {
	t.Helper()
	client, err := kgo.NewClient(brokers, kgo.ConsumeTopics("__consumer_offsets"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ctx.Err() == nil && v.Offset != 6 {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			var k kmsg.OffsetCommitKey
			if err := k.ReadFrom(r.Key); err == nil && k.Group == redriven {
				if err := v.ReadFrom(r.Value); err != nil {
					t.Error(err)
				}
			}
		})
	}
	return v
}

// awaitTopic waits until the broker hosts a topic that the controller has created.
func awaitTopic(t *testing.T, admin *kadm.Client, topic string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		topics, err := admin.ListTopics(ctx, topic)
		if err != nil {
			t.Fatalf("the topic %s did not appear: %v", topic, err)
		}
		if topics.Error() == nil {
			return
		}
	}
}

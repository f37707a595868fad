//go:build rest

package redrive_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/redrive"
	"github.com/idemsk/idemsk/internal/subprocess/serverproc"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/internal/test/testkit/kafkatest"
	topicletters "github.com/idemsk/idemsk/kafka/deadletter/topic"
)

// On a real Kafka: two runs redrive each letter once, and the broker keeps their commits for years.
func TestTopicOfARealKafka(t *testing.T) {
	server := testkit.Run(t, serverproc.StartScript, serverproc.Kafka)
	brokers := kgo.SeedBrokers(server.Addr())
	kafkatest.CreateTopic(t, server.Addr(), deadLetters, 1, nil)
	kafkatest.CreateTopic(t, server.Addr(), "payments", 3, nil)
	topic, err := topicletters.New(topicletters.Config{Topic: deadLetters, Options: []kgo.Opt{brokers}})
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
	if got := outcomes(results); len(refusing.sent) != n-2 ||
		got != "dead-letters-0@1 redriven, dead-letters-0@3 redriven" {
		t.Errorf("the first run sent %v, the second one: %s", refusing.sent, got)
	}
	if results, _ := runAll(t, redrive.Options{Source: openTopic(t, k), Destination: k}); len(results) != 0 {
		t.Errorf("the third run: %s", outcomes(results))
	}
	body := bytes.ReplaceAll(onFailure(2, "1:0-1"), []byte("2023-11-14T22:13:20.000Z"), nil)
	results, _ = runAll(t, redrive.Options{Source: &listSource{bodies: [][]byte{body}}, Ranges: k, Destination: k})
	if got := outcomes(results); got != "a#1 redriven, a#2 redriven" || results[1].Where != "payments-1@3" {
		t.Errorf("the records of a range: %+v", results)
	}
	if last := lastCommit(t, brokers); last.Offset != n || last.Metadata != "" ||
		time.UnixMilli(last.ExpireTimestamp).Before(time.Now().AddDate(9, 0, 0)) {
		t.Errorf("the broker keeps the commit %+v; want the offset %d for ten years", last, n)
	}
}

// lastCommit reads the group's last commit, that of all letters, from the topic in which brokers keep
// commits.
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

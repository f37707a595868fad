// Package kafkatest creates on a Kafka cluster what tests need there.
package kafkatest

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// appearance is the time in which a broker must host a topic that the controller has created.
const appearance = 2 * time.Minute

// CreateTopic creates a topic with one replica and these settings, and waits until the broker hosts it.
func CreateTopic(tb testing.TB, broker, topic string, partitions int32, settings map[string]string) {
	tb.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		tb.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(tb.Context(), appearance)
	defer cancel()
	req, t := kmsg.NewPtrCreateTopicsRequest(), kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, partitions, 1
	for name, value := range settings {
		setting := kmsg.NewCreateTopicsRequestTopicConfig()
		setting.Name, setting.Value = name, &value
		t.Configs = append(t.Configs, setting)
	}
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, client)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		tb.Fatalf("creating the topic %s: %v", topic, err)
	}
	await(ctx, tb, client, topic)
}

func await(ctx context.Context, tb testing.TB, client *kgo.Client, topic string) {
	tb.Helper()
	req, t := kmsg.NewPtrMetadataRequest(), kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	for {
		resp, err := req.RequestWith(ctx, client)
		if err != nil {
			tb.Fatalf("the topic %s did not appear: %v", topic, err)
		}
		if resp.Topics[0].ErrorCode == 0 {
			return
		}
	}
}

package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/kafkaclient"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

func topicVerb() verb {
	return verb{
		name: "topic", args: "create TOPIC", short: "creates a Kafka topic",
		about: `
Creates a topic. It fails if the topic already exists.
` + kafkaHelp,
		examples: []string{
			"idemsk topic create payments --brokers 127.0.0.1:9092",
			"idemsk topic create payments --brokers b-1:9098,b-2:9098 --auth iam --partitions 12 --config min.insync.replicas=2",
		},
		flags: func(fs *flag.FlagSet) action {
			var t topicCommand
			t.declareBrokers(fs)
			t.declareRegion(fs)
			fs.IntVar(&t.partitions, "partitions", 6, "`N` partitions")
			fs.IntVar(&t.replicas, "replication-factor", -1, "`N` replicas of each partition; -1: the cluster's default")
			fs.Func("config", "a setting of the topic as `NAME=VALUE`, such as max.message.bytes=5000000; may be repeated", t.config.add)
			return t.run
		},
	}
}

type topicCommand struct {
	awsFlags
	kafkaFlags
	partitions, replicas int
	config               nameValues
}

func (c *topicCommand) run(ctx context.Context, s Streams, args []string) error {
	const maxInt16 = 1<<15 - 1
	switch {
	case len(args) != 2 || args[0] != "create":
		return usagef("want create TOPIC")
	case c.partitions < 1:
		return usagef("--partitions is %d: want 1 or more", c.partitions)
	case c.replicas != -1 && (c.replicas < 1 || c.replicas > maxInt16):
		return usagef("--replication-factor is %d: want 1 or more, or -1 for the cluster's default", c.replicas)
	}
	if err := kafkaclient.CheckTopic(args[1]); err != nil {
		return &usageError{err}
	}
	client, err := c.connect(ctx, c.region)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := c.create(ctx, client, args[1]); err != nil {
		return err
	}
	s.sayf("idemsk topic: created %s with %s at %s\n", term.Escape(args[1]), term.Plural(c.partitions, "partition", "partitions"), term.Escape(c.brokers))
	return nil
}

// createTimeout is the longest time that the cluster may take to create a topic.
const createTimeout = 20 * time.Second

func (c *topicCommand) create(ctx context.Context, client *kgo.Client, name string) error {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, int32(c.partitions), int16(c.replicas)
	for _, setting := range c.config {
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name, config.Value = setting.name, &setting.value
		topic.Configs = append(topic.Configs, config)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics, req.TimeoutMillis = append(req.Topics, topic), int32(createTimeout.Milliseconds())
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("creating the topic %s at %s: %w", name, c.brokers, err)
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return fmt.Errorf("creating the topic %s at %s: %w%s", name, c.brokers, err, topicHint(err, t.ErrorMessage))
		}
	}
	return nil
}

func topicHint(err error, said *string) string {
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		return " (this user may not create topics: it needs CREATE on the topic; with --auth iam kafka-cluster:CreateTopic)"
	case said != nil && !errors.Is(err, kerr.TopicAlreadyExists): // whose text is sufficient
		return " (" + *said + ")"
	}
	return ""
}

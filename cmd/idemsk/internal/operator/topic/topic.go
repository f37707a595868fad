// Package topic is the verb that creates a Kafka topic.
package topic

import (
	"context"
	_ "embed" // help.txt
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/kafkaclient"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/flags"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

//go:embed help.txt
var help string

// Verb returns the verb topic.
func Verb() command.Verb {
	return command.Verb{
		Name: "topic", Short: "creates a Kafka topic", Help: help,
		Flags: func(fs *flag.FlagSet) command.Action {
			var t invocation
			t.DeclareBrokers(fs)
			t.DeclareRegion(fs)
			fs.IntVar(&t.partitions, "partitions", 6, "`N` partitions")
			fs.IntVar(&t.replicas, "replication-factor", -1,
				"`N` replicas of each partition; -1: the cluster's default")
			fs.Func("config", "a setting of the topic as `NAME=VALUE`, such as max.message.bytes=5000000; "+
				"may be repeated", t.config.Add)
			return t.run
		},
	}
}

// invocation is a run of the verb with its flags.
type invocation struct {
	flags.AWS
	flags.Kafka
	partitions, replicas int
	config               flags.NameValues
}

func (c *invocation) run(ctx context.Context, s command.Streams, args []string) error {
	const maxInt16 = 1<<15 - 1
	switch {
	case len(args) != 2 || args[0] != "create":
		return command.Usagef("want create TOPIC")
	case c.partitions < 1:
		return command.Usagef("--partitions is %d: want 1 or more", c.partitions)
	case c.replicas != -1 && (c.replicas < 1 || c.replicas > maxInt16):
		return command.Usagef("--replication-factor is %d: want 1 or more, or -1 for the cluster's default",
			c.replicas)
	}
	if err := kafkaclient.CheckTopic(args[1]); err != nil {
		return &command.UsageError{Err: err}
	}
	client, err := c.Connect(ctx, c.Region)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := c.create(ctx, client, args[1]); err != nil {
		return err
	}
	s.Sayf("idemsk topic: created %s with %s at %s\n", term.Escape(args[1]),
		term.Plural(c.partitions, "partition", "partitions"), term.Escape(c.Brokers))
	return nil
}

// createTimeout is the longest time that the cluster may take to create a topic.
const createTimeout = 20 * time.Second

func (c *invocation) create(ctx context.Context, client *kgo.Client, name string) error {
	configs := make(map[string]*string)
	for _, setting := range c.config {
		configs[setting.Name] = &setting.Value
	}
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	admin := kadm.NewClient(client)
	admin.SetTimeoutMillis(int32(createTimeout.Milliseconds()))
	created, err := admin.CreateTopic(ctx, int32(c.partitions), int16(c.replicas), configs, name)
	if err != nil {
		return fmt.Errorf("creating the topic %s at %s: %w%s", name, c.Brokers, err,
			topicHint(err, created.ErrMessage))
	}
	return nil
}

func topicHint(err error, said string) string {
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		return " (this user may not create topics: it needs CREATE on the topic; with --auth iam " +
			"kafka-cluster:CreateTopic)"
	case said != "" && !errors.Is(err, kerr.TopicAlreadyExists): // whose text is sufficient
		return " (" + said + ")"
	}
	return ""
}

package deadletters_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/idemsk/idemsk/app"
	function "github.com/idemsk/idemsk/app/lambda"
	"github.com/idemsk/idemsk/app/process"
	"github.com/idemsk/idemsk/app/topic"
	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/consumer"
	s3letters "github.com/idemsk/idemsk/kafka/deadletter/s3"
)

// consume runs a consumer until it ends by itself, or for some seconds, and returns its error.
func consume(t *testing.T, brokers []string, letters kafka.DeadLetters, change func(*consumer.Config)) error {
	t.Helper()
	engine, err := idem.New(memstore.New(memstore.Config{}), idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := consumer.Config{Brokers: brokers, Topics: []string{"payments"}, Group: "ledger",
		Records: kafka.Config{DeadLetters: letters}}
	change(&cfg)
	c, err := consumer.New(engine, kafka.HandlerFunc(refuse), cfg)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
	defer stop()
	return c.Run(ctx)
}

// A consumer does not begin if it would consume its own dead letters: by name, by a pattern, and also if the
// topic of the dead letters is created later.
func TestConsumerOfItsOwnDeadLetters(t *testing.T) {
	pattern := func(topics ...string) func(*consumer.Config) {
		return func(cfg *consumer.Config) {
			cfg.Topics, cfg.Options = topics, append(cfg.Options, kgo.ConsumeRegex())
		}
	}
	for name, tc := range map[string]struct {
		change  func(*consumer.Config)
		refused bool
	}{
		"its topic":           {func(cfg *consumer.Config) { cfg.Topics = []string{letters} }, true},
		"one of its topics":   {func(cfg *consumer.Config) { cfg.Topics = []string{"payments", letters} }, true},
		"a pattern":           {pattern("^payments"), true},
		"a part of the name":  {pattern("dead"), true},
		"one of two patterns": {pattern("^refunds$", ".*-letters"), true},
		"another topic":       {func(*consumer.Config) {}, false},
		"another pattern":     {pattern("^payments$"), false},
		"no pattern":          {func(cfg *consumer.Config) { cfg.Topics = []string{"payments.dead.letters"} }, false},
		"it is excluded": {func(cfg *consumer.Config) {
			pattern("^payments")(cfg)
			cfg.Options = append(cfg.Options, kgo.ConsumeExcludeTopics("-dead-letters$"))
		}, false},
	} {
		for where, wrap := range map[string]func(kafka.DeadLetters) (kafka.DeadLetters, error){
			"": func(l kafka.DeadLetters) (kafka.DeadLetters, error) { return l, nil },
			", values in S3": func(l kafka.DeadLetters) (kafka.DeadLetters, error) {
				return s3letters.New(l, s3.New(s3.Options{}), s3letters.Config{Bucket: "values"})
			},
		} {
			t.Run(name+where, func(t *testing.T) {
				t.Parallel()
				brokers := newCluster(t, kfake.SeedTopics(1, "payments", "payments.dead.letters")).ListenAddrs()
				sink, err := wrap(newTopic(t, brokers))
				if err != nil {
					t.Fatal(err)
				}
				err = consume(t, brokers, sink, tc.change)
				if refused := errors.Is(err, idem.ErrInvalidConfig); refused != tc.refused || !refused && err != nil {
					t.Errorf("error %v; want a refusal: %t", err, tc.refused)
				}
				if tc.refused && !strings.Contains(err.Error(), "IDEMSK_DEAD_LETTER_TOPIC") {
					t.Errorf("%v does not name the variable", err)
				}
			})
		}
	}
}

// A process, and a function, do not handle their own dead letters.
func TestHostsOfTheirOwnDeadLetters(t *testing.T) {
	brokers := newCluster(t).ListenAddrs()
	handler := app.Handler(kafka.HandlerFunc(func(context.Context, kafka.Record) ([]byte, error) {
		t.Error("the handler is called")
		return nil, nil
	}))
	const arn, url = "arn:aws:sqs:eu-central-1:123456789012:payments",
		"https://sqs.eu-central-1.amazonaws.com/123456789012/payments"
	kafkaEvent := func(topic string) string {
		return fmt.Sprintf(`{"eventSource":"aws:kafka","records":{"payments-0":[],"%s-0":[{"topic":%q,"partition":0,"offset":0,"value":%q}]}}`,
			topic, topic, base64.StdEncoding.EncodeToString([]byte("v")))
	}
	for name, tc := range map[string]struct {
		event string
		env   map[string]string
	}{
		"topic":                  {kafkaEvent(letters), nil},
		"topic, partial answers": {kafkaEvent(letters), map[string]string{"IDEMSK_FAILURES": "partial"}},
		"queue": {fmt.Sprintf(`{"Records":[{"messageId":"m","eventSource":"aws:sqs","eventSourceARN":%q,"body":"{}"}]}`, arn),
			map[string]string{"IDEMSK_DEAD_LETTER_TOPIC": "", "IDEMSK_DEAD_LETTER_QUEUE_URL": url, "AWS_REGION": "eu-central-1"}},
	} {
		more := map[string]string{"AWS_LAMBDA_FUNCTION_NAME": "pay"}
		for k, v := range tc.env {
			more[k] = v
		}
		f, err := function.New(t.Context(), handler, environment(brokers, more), t.Output(), t.Output(), topic.DeadLetters())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Invoke(t.Context(), []byte(tc.event)); !errors.Is(err, idem.ErrInvalidConfig) ||
			!strings.Contains(err.Error(), "the dead letters are sent to the") {
			t.Errorf("%s: error %v; want one that refuses the event", name, err)
		}
		f.Close()
	}
	err := process.Run(t.Context(), handler, environment(brokers, map[string]string{
		"IDEMSK_KAFKA_TOPICS": "payments, " + letters, "IDEMSK_KAFKA_GROUP": "ledger",
	}), t.Output())
	if !errors.Is(err, idem.ErrInvalidConfig) || !strings.Contains(err.Error(), `Topics has "payments-dead-letters"`) {
		t.Errorf("process: error %v; want a refusal", err)
	}
}

// A process ends at its start if an operator must repair the topic of the dead letters first, with the
// remedy. It does not wait for brokers that do not answer, nor for a permission that it can do without.
func TestTopicIsCheckedAtTheStart(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(t *testing.T, c *kfake.Cluster)
		says    string // "": the process begins
	}{
		"missing":   {removeLetters, "the cluster has no such topic: create it, with cleanup.policy=delete"},
		"compacted": {compactLetters, "set cleanup.policy=delete"},
		"may not be described": {fault(kfake.Fault{Keys: metadata, Topic: letters, Err: kerr.TopicAuthorizationFailed, Count: -1}),
			"the ACLs Describe and Write"},
		"its settings may not be read": {fault(kfake.Fault{Keys: settings, Err: kerr.TopicAuthorizationFailed, Count: -1}), ""},
		"its settings are unknown":     {fault(kfake.Fault{Keys: settings, Err: kerr.UnknownServerError, Count: -1}), ""},
		"there is one":                 {func(*testing.T, *kfake.Cluster) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, kfake.SeedTopics(1, "payments"))
			tc.prepare(t, c)
			err := consume(t, c.ListenAddrs(), newTopic(t, c.ListenAddrs()), func(*consumer.Config) {})
			if tc.says == "" && err == nil {
				return
			}
			if tc.says == "" || !errors.Is(err, consumer.ErrOperator) || !strings.Contains(err.Error(), tc.says) ||
				!strings.Contains(err.Error(), letters) {
				t.Errorf("error %v; want %q", err, tc.says)
			}
		})
	}
}

var (
	metadata = []kmsg.Key{kmsg.Metadata}
	settings = []kmsg.Key{kmsg.DescribeConfigs}
)

func removeLetters(t *testing.T, c *kfake.Cluster) {
	t.Helper()
	if err := c.DeleteTopic(letters); err != nil {
		t.Fatal(err)
	}
}

func compactLetters(t *testing.T, c *kfake.Cluster) {
	t.Helper()
	configure(t, c.ListenAddrs(), "cleanup.policy", "compact")
}

func fault(f kfake.Fault) func(*testing.T, *kfake.Cluster) {
	return func(_ *testing.T, c *kfake.Cluster) { c.Fault(f) }
}

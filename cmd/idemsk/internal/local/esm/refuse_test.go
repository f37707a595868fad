package esm_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/internal/mskevent"
)

func TestInvalidParameters(t *testing.T) {
	t.Parallel()
	for says, spoil := range map[string]func(c *esm.Config){
		"there are 0 topics":                func(c *esm.Config) { c.Topics = nil },
		`the topic is "bad topic"`:          func(c *esm.Config) { c.Topics = []string{"bad topic"} },
		"there are 2 topics":                func(c *esm.Config) { c.Topics = []string{"a", "b"} },
		"--consumer-group-id":               func(c *esm.Config) { c.ConsumerGroup = "" },
		"--batch-size is 0":                 func(c *esm.Config) { c.BatchSize = 0 },
		"--batch-size is 10001":             func(c *esm.Config) { c.BatchSize = 10_001 },
		"--maximum-batching-window is -1ns": func(c *esm.Config) { c.MaximumBatchingWindow = -1 },
		"--maximum-batching-window is 5m0.001s": func(
			c *esm.Config) {
			c.MaximumBatchingWindow = esm.MaxBatchingWindow + time.Millisecond
		},
		`--starting-position is "EARLIEST"`: func(c *esm.Config) { c.StartingPosition = "EARLIEST" },
		"--starting-position-timestamp and": func(c *esm.Config) { c.StartingPosition = esm.AtTimestamp },
		"go together": func(
			c *esm.Config) {
			c.StartingPositionTimestamp = time.Now()
		},
		`--function-response-types has "x"`: func(
			c *esm.Config) {
			c.FunctionResponseTypes = []string{"x"}
		},
		"--maximum-retry-attempts is -2":    func(c *esm.Config) { c.MaximumRetryAttempts = -2 },
		"--maximum-retry-attempts is 10001": func(c *esm.Config) { c.MaximumRetryAttempts = 10_001 },
		"--maximum-record-age is 59s": func(
			c *esm.Config) {
			c.MaximumRecordAge = 59 * time.Second
		},
		"--maximum-record-age is 168h0m1s": func(c *esm.Config) {
			c.MaximumRecordAge = esm.MaxRecordAge + time.Second
		},
		"kafka://payments, the topic that is": func(c *esm.Config) { c.OnFailure = "kafka://payments" },
		"--pollers is 0":                      func(c *esm.Config) { c.Pollers = 0 },
		"--timeout is 15m0s":                  func(c *esm.Config) { c.Timeout = 15 * time.Minute },
		`--retry is ""`:                       func(c *esm.Config) { c.Retry = "" },
		"RetryDelay is -1s":                   func(c *esm.Config) { c.RetryDelay = -time.Second },
		"--filter-criteria":                   func(c *esm.Config) { c.FilterCriteria = "x" },
		`--event-record-format is "json"`: func(c *esm.Config) {
			c.SchemaRegistry = &esm.SchemaRegistry{EventRecordFormat: "json",
				Attributes: []string{esm.AttributeKey}}
		},
		`--schema-validation is ["HEADERS"]`: func(c *esm.Config) {
			c.SchemaRegistry = &esm.SchemaRegistry{EventRecordFormat: esm.FormatJSON,
				Attributes: []string{"HEADERS"}}
		},
	} {
		c := config()
		spoil(&c)
		_, err := esm.New(c, esm.Parts{Brokers: []string{"b"}, Invoker: new(function).invoker})
		if !errors.Is(err, esm.ErrConfig) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want an ErrConfig that says %q", err, says)
		}
	}
	c := config()
	c.BatchSize, c.Pollers = 0, 0
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "--batch-size") ||
		!strings.Contains(err.Error(), "--pollers") {
		t.Errorf("%v; want both errors", err)
	}
	c = config()
	if _, err := esm.New(c, esm.Parts{Brokers: []string{"b"}}); !errors.Is(err, esm.ErrConfig) {
		t.Errorf("without an invoker: %v", err)
	}
}

func TestMappingsThatCannotStart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	gone := newCluster(t, 1)
	addrs := gone.ListenAddrs()
	gone.Close()
	member, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumerGroup("taken"),
		kgo.ConsumeTopics(topic), kgo.DisableAutoCommit())
	if err != nil {
		t.Fatal(err)
	}
	defer member.Close()
	produce(t, c, 1, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := member.PollFetches(ctx).Err(); err != nil { // then it is in the group
		t.Fatal(err)
	}
	noFunction := errors.New("no function")
	for name, test := range map[string]struct {
		spoil func(c *esm.Config, p *esm.Parts)
		says  string
	}{
		"no broker": {func(_ *esm.Config, p *esm.Parts) { p.Brokers = addrs },
			"no Kafka broker answers at " + addrs[0]},
		"unknown topic": {func(c *esm.Config, _ *esm.Parts) { c.Topics = []string{"paymnets"} },
			"has no topic paymnets: create it (idemsk topic create), or name an existing one: letters, payments"},
		"group in use": {func(c *esm.Config, _ *esm.Parts) { c.ConsumerGroup = "taken" },
			"the consumer group taken has 1 active members"},
		"no function": {func(_ *esm.Config, p *esm.Parts) {
			p.Invoker = func(context.Context, int) (esm.Invoker, error) { return nil, noFunction }
		}, "no function"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, p := config(), parts(c, new(function).invoker)
			test.spoil(&cfg, &p)
			if err := run(t, cfg, p); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v; want an error that says %q", err, test.says)
			}
		})
	}
}

// For its first consumer group, a broker creates the topic of offsets, and refuses requests until then.
func TestCoordinatorIsRetriedUntilItIsAvailable(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	produce(t, c, 1, 0)
	refused := 0
	c.ControlKey(int16(kmsg.FindCoordinator), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if refused++; refused > 6 { // more than the client itself tries again
			return nil, nil, false
		}
		c.KeepControl()
		resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
		group := kmsg.NewFindCoordinatorResponseCoordinator()
		group.Key, group.ErrorCode = "group", kerr.CoordinatorNotAvailable.Code
		resp.Coordinators = append(resp.Coordinators, group)
		return resp, nil, true
	})
	f := new(function)
	mustRun(t, config(), parts(c, f.invoker))
	check(t, "calls", f.short(), []string{"0@0"})
	if refused <= 6 {
		t.Errorf("refused %d times", refused)
	}
}

func TestPartitionIDs(t *testing.T) {
	t.Parallel()
	if s := (mskevent.Place{Partition: "a-b-1", Offset: 7}).String(); s != "a-b-1@7" {
		t.Error(s)
	}
	if topic, ok := esm.KafkaTopic("kafka://a"); topic != "a" || !ok {
		t.Error(topic, ok)
	}
}

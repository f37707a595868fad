package main

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/oracle"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/payments"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/testenv"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/verify"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/awsclient"
	"github.com/idemsk/idemsk/internal/mskevent"
)

// topic and group are those of infra/cdk/awscheck. The group is the namespace of the keys.
const (
	topic       = "payments"
	group       = "aws-check"
	maxAttempts = 10
)

// check is a run of the check.
type check struct {
	command.Streams

	name, cdk, handler, producer, work string
	onDemand                           bool
	local                              string // the URL of LocalStack; "" for AWS
	payments                           payments.Config
	cfg                                aws.Config

	out outputs
}

// destroyTime is the maximum time of the destruction. CloudFormation goes on by itself after it.
const destroyTime = time.Hour

// run takes all steps. It destroys what they created in every case.
func (c *check) run(ctx context.Context, r *report) {
	ctx, cancel := context.WithTimeout(ctx, longestTime-destroyTime)
	defer cancel()
	defer func() {
		c.Sayf("Destroying the stacks of %s. Please let it end.\n", c.name)
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyTime)
		defer cancel()
		r.take("destroy everything", func() error { return c.destroy(after) })
		if r.steps[len(r.steps)-1].err != nil {
			r.left = c.remains(&r.plan)
		}
	}()
	if c.local != "" {
		c.runLocal(ctx, r)
		return
	}
	r.do("deploy the cluster and the producer", func() error { return c.deploy(ctx, "cluster") })
	r.do("create the topic", func() error { return c.createTopic(ctx) })
	r.do("deploy the consumer", func() error { return c.deploy(ctx, "consumer") })
	r.do("send the payments", func() error { return c.send(ctx) })
	r.do("wait until everything is settled", func() error { return c.drain(ctx) })
	r.do("compare the ledger", func() error { return c.compare(ctx, r) })
}

func (c *check) runLocal(ctx context.Context, r *report) {
	r.notRun = []string{"deploy the cluster, its VPC and the producer", "create the topic on MSK Serverless",
		"send the payments through the producer, with IAM",
		"deliver them by AWS's event source mapping: an event source in this process invoked the function",
		"check the permissions of the roles"}
	r.do("bootstrap the CDK", func() error {
		return c.cdkRun(ctx, "bootstrap", "aws://000000000000/"+c.cfg.Region)
	})
	r.do("deploy the consumer", func() error { return c.deploy(ctx, "consumer") })
	r.do("deliver the payments, some batches twice", func() error { return c.deliver(ctx, r) })
	r.do("compare the ledger", func() error { return c.compare(ctx, r) })
}

// Faults of the local event source.
const (
	duplicateChance  = 0.3
	concurrentChance = 0.05
	localPollers     = 4
)

// deliver runs the deployed event source mapping in this process, on a broker in this process.
func (c *check) deliver(ctx context.Context, r *report) error {
	o := local.Options{Partitions: partitions, Produce: c.payments.Records, Seed: c.payments.Seed,
		Copies: c.payments.Copies, FreezesPerMille: c.payments.FreezesPerMille, UntilDrained: true,
		Endpoint: true, Log: c.Err, Say: func(line string) { c.Sayf("%s\n", line) },
		AWS:    func(context.Context) (aws.Config, error) { return c.cfg, nil },
		Faults: local.Faults{Duplicate: duplicateChance, Concurrent: concurrentChance}}
	o.ESM = esm.DefaultConfig()
	if _, err := local.FromMapping(ctx, &o, c.local, local.Wanted{Function: c.out.FunctionArn}); err != nil {
		return err
	}
	o.ESM.Pollers = localPollers
	done, err := local.Run(ctx, o)
	if err != nil {
		return err
	}
	r.counts = &done.Counts
	if lag := done.Lag(); lag > 0 {
		return fmt.Errorf("%d records are not committed: %w", lag, context.Cause(ctx))
	}
	return nil
}

// expected returns the ledger of the payments that were sent. Their partitions do not matter, because all
// records of a key are equal.
func (c *check) expected() (ledger *oracle.Ledger, frozen map[string]bool, err error) {
	rules := oracle.Rules{Key: "header:idempotency-key", Namespace: group, MaxAttempts: maxAttempts,
		CommitWindow: 1, Simulate: true}
	ledger, frozen = oracle.New(rules), make(map[string]bool)
	for m, err := range c.payments.Messages(topic) {
		if err != nil {
			return nil, nil, err
		}
		if err := ledger.Add([]mskevent.Record{m.Record()}); err != nil {
			return nil, nil, err
		}
		if freezes(m.Value) {
			all := ledger.Records()
			frozen[all[len(all)-1].Key] = true
		}
	}
	return ledger, frozen, nil
}

// tables returns the deployed tables and the queue.
func (c *check) tables() (*testenv.Environment, error) {
	env, err := testenv.InDynamoDB(dynamodb.NewFromConfig(c.cfg),
		testenv.Names{Keys: c.out.KeysTable, Ledger: c.out.LedgerTable, Audit: c.out.AuditTable},
		sqs.NewFromConfig(c.cfg, func(o *sqs.Options) { o.HTTPClient = awsclient.New(c.cfg.HTTPClient, 0) }))
	if err == nil {
		env.Queue = c.out.DeadLetterQueueURL
	}
	return env, err
}

// compare compares the tables with the payments. Each booking must have been made once: bookings commit with
// the completion of their payment.
func (c *check) compare(ctx context.Context, r *report) error {
	want, frozen, err := c.expected()
	if err != nil {
		return err
	}
	env, err := c.tables()
	if err != nil {
		return err
	}
	found, err := env.Read(ctx)
	if err != nil {
		return err
	}
	bodies, err := env.Messages(ctx)
	if err != nil {
		return err
	}
	letters, err := testenv.ParseLetters(bodies)
	if err != nil {
		return err
	}
	r.result = verify.Run(want, found, letters, nil, 0)
	r.frozen, r.bookings = len(frozen), len(found.Executions)
	executors := make(map[string]bool)
	for _, e := range found.Executions {
		executors[e.Executor] = true
		if frozen[e.Key] && e.Attempt > 1 {
			r.killed++
		}
	}
	r.invoked = len(executors)
	if r.killed < r.frozen {
		r.result.Problems = append(r.result.Problems, fmt.Sprintf(
			"%d of %d payments that freeze their process were booked in the first attempt: nothing was killed",
			r.frozen-r.killed, r.frozen))
	}
	return nil
}

// unsettled returns the number of expected keys that have not ended.
func unsettled(want *oracle.Ledger, statuses map[string]store.Status) int {
	open := make(map[string]bool)
	for _, record := range want.Records() {
		if s := statuses[record.Key]; s != store.StatusCompleted && s != store.StatusFailed {
			open[record.Key] = true
		}
	}
	return len(open)
}

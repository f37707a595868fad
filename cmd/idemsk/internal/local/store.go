package local

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/testenv"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/awsclient"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/fake/sqsfake"
	"github.com/idemsk/idemsk/internal/trace/dynamotrace"
	"github.com/idemsk/idemsk/outbox/dynamooutbox"
)

// runStore is the test environment of a run. SQS and, by default, DynamoDB are in this process, so that they
// outlive the processes of the function and serve all of them.
type runStore struct {
	*testenv.Environment

	tables    *dynamofake.Server // nil if DynamoDB is elsewhere
	queues    *sqsfake.Server
	transport *http.Transport
	sqs       *sqs.Client
	url       string              // of DynamoDB
	where     string              // describes where the tables are
	variables []string            // of the function, for PostgreSQL and Redis
	traces    *dynamotrace.Writes // nil without --traces
	taken     taken
}

// deadLetterQueue is the queue of the function's dead letters.
const deadLetterQueue = "idemsk-dead-letters"

// taken are the dead letters that were redriven or discarded. They are no longer in the queue.
type taken struct {
	mu     sync.Mutex
	bodies []string
}

// add adds a message that was deleted, unless it is of another queue: the one that the function reads, say.
func (t *taken) add(queue, body string) {
	if queue != deadLetterQueue {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bodies = append(t.bodies, body)
}

// records returns the number of records whose letters were taken.
func (t *taken) records() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	letters, err := testenv.ParseLetters(t.bodies)
	if err != nil { // those of another function may have any form
		return len(t.bodies)
	}
	return len(letters)
}

func startStore(ctx context.Context, o *Options, recorder *recorder) (s *runStore, err error) {
	s = &runStore{transport: &http.Transport{}}
	if s.queues, err = sqsfake.New(sqsfake.Config{Addr: loopback(o.Ports.SQS), Removed: s.taken.add}); err != nil {
		return nil, err
	}
	if err := s.start(ctx, o, recorder); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *runStore) start(ctx context.Context, o *Options, recorder *recorder) error {
	if err := s.queues.Start(); err != nil {
		return fmt.Errorf("the SQS in this process (--sqs-port): %w", err)
	}
	s.sqs = sqs.NewFromConfig(s.config(s.queues.URL()))
	kind := o.storeKind()
	if o.Unprotected && kind != storeDynamoDB {
		kind = StoreFake // without idemsk the function has its ledger in DynamoDB
	}
	s.url = o.Store
	if kind != storeDynamoDB {
		if err := s.startTables(o, recorder); err != nil {
			return err
		}
	}
	env, err := s.open(kind, o)
	if err == nil {
		if err = s.create(ctx, env, kind, o); err == nil {
			s.Environment = env
			return nil
		}
		env.Close()
	}
	if kind == storePostgres || kind == storeRedis {
		err = fmt.Errorf("--store: %w", err)
	}
	return err
}

// open returns the test environment. It does not connect.
func (s *runStore) open(kind string, o *Options) (*testenv.Environment, error) {
	names := testenv.Names{Keys: dynamostore.DefaultTable, Ledger: "idemsk-ledger", Audit: "idemsk-audit"}
	if kind != StoreFake { // there may be other tables
		suffix := "-" + strings.ToLower(rand.Text()[:8])
		names = testenv.Names{Keys: names.Keys + suffix, Ledger: names.Ledger + suffix,
			Audit: names.Audit + suffix}
	}
	switch kind {
	case storePostgres, storeRedis:
		s.where = "Keys under " + names.Keys + ": idemsk list --table " + names.Keys +
			", with the URL of --store in IDEMSK_STORE_URL"
		s.variables = []string{
			"IDEMSK_STORE=" + kind, "IDEMSK_STORE_URL=" + o.Store,
			"IDEMSK_CONCURRENCY=8", // each has a connection, in each process
		}
		return testenv.Open(o.Store, names, s.sqs)
	case storeDynamoDB:
		s.where = fmt.Sprintf("DynamoDB at %s, tables %s and %s: idemsk list --endpoint-url %[1]s --table %[2]s", s.url, names.Keys, names.Ledger)
	default:
		s.where = fmt.Sprintf("DynamoDB in this process at %s, %s: idemsk list --endpoint-url %[1]s", s.url, tablesOf(names, o))
	}
	return testenv.InDynamoDB(s.dynamoDB(), names, s.sqs)
}

// tablesOf describes the tables that a function has in the DynamoDB in this process.
func tablesOf(names testenv.Names, o *Options) string {
	tables := []string{names.Keys}
	if o.Example {
		tables = append(tables, names.Ledger)
	}
	for _, table := range o.Tables {
		name, _, _ := strings.Cut(table, "=") // validate has checked it
		tables = append(tables, name)
	}
	if len(tables) == 1 {
		return "table " + tables[0]
	}
	last := len(tables) - 1
	return "tables " + strings.Join(tables[:last], ", ") + " and " + tables[last]
}

// create creates the tables and the queue.
func (s *runStore) create(ctx context.Context, env *testenv.Environment, kind string, o *Options) error {
	err := promptly(ctx, env.Check)
	if kind == storeDynamoDB {
		if err != nil {
			return fmt.Errorf("no DynamoDB answers at %s: start it, or check --store: %w", s.url, err)
		}
		err = s.checkOutbox(ctx, o)
	}
	if err != nil {
		return err
	}
	return env.Create(ctx, deadLetterQueue)
}

// checkOutbox returns an error if the function is to publish into a table that does not exist, because each
// record would fail.
func (s *runStore) checkOutbox(ctx context.Context, o *Options) error {
	if o.variable("IDEMSK_OUTBOX") != "on" {
		return nil
	}
	table := cmp.Or(o.variable("IDEMSK_OUTBOX_TABLE"), dynamooutbox.DefaultTable)
	_, err := s.dynamoDB().DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
	var missing *types.ResourceNotFoundException
	if errors.As(err, &missing) {
		return fmt.Errorf("the outbox's table %s does not exist at %s: create it with idemsk relay --migrate --outbox-table %s --endpoint-url %s",
			table, s.url, table, s.url)
	}
	return err
}

func (s *runStore) dynamoDB() *dynamodb.Client { return dynamodb.NewFromConfig(s.config(s.url)) }

func (s *runStore) config(url string) aws.Config {
	return aws.Config{
		Region: testenv.Region, BaseEndpoint: &url,
		Credentials: credentials.NewStaticCredentialsProvider(testenv.AccessKeyID, testenv.AccessSecret, ""),
		HTTPClient:  awsclient.New(&http.Client{Transport: s.transport}, 0),
	}
}

func (s *runStore) startTables(o *Options, recorder *recorder) (err error) {
	c := dynamofake.Config{Addr: loopback(o.Ports.DynamoDB),
		NoTable: ": idemsk local creates it with --create-table NAME=KEY, where KEY is its partition key"}
	var observe func(*dynamofake.Write)
	if recorder != nil {
		observe, c.Fault = recorder.observe, recorder.armed.fault
	}
	c.Observe = s.traced(o, observe)
	if s.tables, err = dynamofake.New(c); err != nil {
		return err
	}
	if err := s.tables.Start(); err != nil {
		return fmt.Errorf("the DynamoDB in this process (--dynamodb-port): %w", err)
	}
	s.url = s.tables.URL()
	for _, table := range o.Tables {
		name, key, _ := strings.Cut(table, "=") // validate has checked it
		if err := s.tables.CreateTable(dynamofake.Table{Name: name, HashKey: key}); err != nil {
			return fmt.Errorf("--create-table: %w", err)
		}
	}
	return nil
}

// describe returns where the function's tables and queue are.
func (s *runStore) describe() []string {
	return []string{s.where, fmt.Sprintf("SQS in this process at %s, dead letters: idemsk redrive --queue-url %s --dry-run",
		s.queues.URL(), s.Queue)}
}

// close removes what the run created.
func (s *runStore) close() error {
	var errs []error
	if s.Environment != nil {
		errs = append(errs, s.Remove(context.Background()))
		s.Close()
	}
	if s.tables != nil {
		errs = append(errs, s.tables.Close())
	}
	errs = append(errs, s.queues.Close())
	s.transport.CloseIdleConnections()
	return errors.Join(errs...)
}

// usualLease is the function's lease, unless --env has another.
const usualLease = 5 * time.Second

// usualRetryDelay is the time before a second attempt, unless --env has another: a record that always fails
// is a dead letter after 2 seconds.
const usualRetryDelay = 25 * time.Millisecond

// usualOutageLimit ends a run with --until-drained whose handler fails for all records, unless --env has
// another.
const usualOutageLimit = time.Minute

// lease returns the function's lease; 0 if it has none, or an unknown one.
func (o *Options) lease() time.Duration {
	if !o.ownStore() || o.Unprotected {
		return 0
	}
	if d, err := time.ParseDuration(o.variable("IDEMSK_LEASE")); err == nil {
		return d
	}
	return usualLease
}

// environment returns the variables of a function.
func (s *runStore) environment(o *Options) []string {
	failures := "batch"
	if slices.Contains(o.ESM.FunctionResponseTypes, esm.ReportBatchItemFailures) {
		failures = "partial"
	}
	return append(s.variablesOf(o), "IDEMSK_FAILURES="+failures)
}

// variablesOf returns the variables that point a function or a consumer to the store. The lease is short, so
// that the keys of a killed process are soon free, and long enough that a process on a busy machine does not
// lose its keys.
func (s *runStore) variablesOf(o *Options) []string {
	env := append([]string{
		"AWS_ENDPOINT_URL_DYNAMODB=" + s.url, "AWS_ENDPOINT_URL_SQS=" + s.queues.URL(),
		"AWS_ACCESS_KEY_ID=" + testenv.AccessKeyID, "AWS_SECRET_ACCESS_KEY=" + testenv.AccessSecret,
		"IDEMSK_DEAD_LETTER_QUEUE_URL=" + s.Queue,
		"IDEMSK_LEASE=" + usualLease.String(), "IDEMSK_MAX_CLOCK_SKEW=" + usualSkew.String(),
		"IDEMSK_RETRY_DELAY=" + usualRetryDelay.String(),
		"IDEMSK_OUTAGE_LIMIT=" + usualOutageLimit.String(),
	}, s.variables...)
	if o.Example {
		env = append(env, "IDEMSK_LEDGER_TABLE="+s.Ledger, "IDEMSK_SIMULATE=on")
	}
	if o.audited() {
		env = append(env, "IDEMSK_AUDIT=on", "IDEMSK_AUDIT_TABLE="+s.Audit)
	}
	if o.Unprotected {
		return append(env, "IDEMSK_STORE=none")
	}
	return append(env, "IDEMSK_TABLE="+s.Keys)
}

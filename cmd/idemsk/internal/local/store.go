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
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/proof"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/site"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/dynamofake"
	"github.com/idemsk/idemsk/internal/sqsfake"
	"github.com/idemsk/idemsk/outbox/dynamooutbox"
)

// Region and credentials of the function are made up, so that a local run can't reach real tables by mistake. DynamoDB Local has tables
// of their own for each pair, so that a client that looks at them needs the same.
const (
	Region       = "us-east-1"
	AccessKeyID  = "idemskLocal" // DynamoDB Local wants letters and digits
	AccessSecret = "not-a-secret"
)

// The names of what the function works on, in this process.
const (
	ledgerTable = "idemsk-ledger"
	auditTable  = "idemsk-audit"
	letterQueue = "idemsk-dead-letters"
)

// siteStore is the DynamoDB and SQS of a run. They are in this process, so that they outlive the function's processes and serve
// them all; the DynamoDB may be elsewhere on this machine.
type siteStore struct {
	proof.Site

	tables    *dynamofake.Server // nil: elsewhere
	queues    *sqsfake.Server
	transport *http.Transport
	url       string // of DynamoDB

	// Where the function has another store, it has keys and ledger there.
	elsewhere *site.Site
	keys      string   // their table, or prefix
	ledger    string   // that of the example
	variables []string // that name it
}

func startStore(ctx context.Context, o *Options) (s *siteStore, err error) {
	s = &siteStore{transport: &http.Transport{}}
	if s.queues, err = sqsfake.New(sqsfake.Config{Addr: loopback(o.Ports.SQS)}); err != nil {
		return nil, err
	}
	if err := s.start(ctx, o); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *siteStore) start(ctx context.Context, o *Options) error {
	if err := s.queues.Start(); err != nil {
		return fmt.Errorf("the SQS in this process (--sqs-port): %w", err)
	}
	s.Table, s.Ledger, s.Audit = dynamostore.DefaultTable, ledgerTable, auditTable
	switch kind := o.storeKind(); kind {
	case storeDynamoDB: // where others may have tables, and where this run's are removed
		suffix := newSuffix()
		s.Table, s.Ledger, s.Audit = s.Table+suffix, s.Ledger+suffix, s.Audit+suffix
		s.url = o.Store
	case storePostgres, storeRedis:
		if err := s.openElsewhere(ctx, kind, o.Store); err != nil {
			return err
		}
	}
	if s.url == "" {
		if err := s.startTables(o); err != nil {
			return err
		}
	}
	cfg := aws.Config{
		Region: Region, Credentials: credentials.NewStaticCredentialsProvider(AccessKeyID, AccessSecret, ""),
		HTTPClient: &http.Client{Transport: s.transport},
	}
	s.SQS = sqs.NewFromConfig(cfg, func(q *sqs.Options) { q.BaseEndpoint = aws.String(s.queues.URL()) })
	s.Dynamo = dynamodb.NewFromConfig(cfg, func(d *dynamodb.Options) { d.BaseEndpoint = &s.url })
	if err := s.checkDynamoDB(ctx); err != nil {
		return fmt.Errorf("no DynamoDB answers at %s: start it, or check --store: %w", s.url, err)
	}
	if err := s.checkOutbox(ctx, o); err != nil {
		return err
	}
	return s.Create(ctx, letterQueue)
}

// checkOutbox fails if the function is to publish into a table that is not there: each record would fail, again and again.
func (s *siteStore) checkOutbox(ctx context.Context, o *Options) error {
	if o.variable("IDEMSK_OUTBOX") != "on" || s.elsewhere != nil {
		return nil
	}
	table := cmp.Or(o.variable("IDEMSK_OUTBOX_TABLE"), dynamooutbox.DefaultTable)
	_, err := s.Dynamo.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
	var missing *types.ResourceNotFoundException
	if errors.As(err, &missing) {
		return fmt.Errorf("the outbox's table %s does not exist at %s: create it with idemsk relay --migrate --outbox-table %s --endpoint-url %s",
			table, s.url, table, s.url)
	}
	return err
}

// describe says where the function's tables and queue are, for who wants to look at them or use them.
func (s *siteStore) describe() (lines []string) {
	switch {
	case s.elsewhere != nil:
		lines = append(lines, "Keys under "+s.keys+": idemsk list --table "+s.keys+", with the URL of --store in IDEMSK_STORE_URL")
	case s.tables != nil:
		lines = append(lines, fmt.Sprintf("DynamoDB in this process at %s, tables %s and %s: idemsk list --endpoint-url %s", s.url, s.Table, s.Ledger, s.url))
	default:
		lines = append(lines, fmt.Sprintf("DynamoDB at %s, tables %s and %s: idemsk list --endpoint-url %s --table %s", s.url, s.Table, s.Ledger, s.url, s.Table))
	}
	return append(lines, fmt.Sprintf("SQS in this process at %s, dead letters in %s.", s.queues.URL(), s.Queue))
}

func (s *siteStore) checkDynamoDB(ctx context.Context) error {
	return promptly(ctx, func(ctx context.Context) error {
		_, err := s.Dynamo.ListTables(ctx, &dynamodb.ListTablesInput{})
		return err
	})
}

func newSuffix() string { return "-" + strings.ToLower(rand.Text()[:8]) }

// openElsewhere makes keys and ledger of a PostgreSQL or Redis, once that has answered.
func (s *siteStore) openElsewhere(ctx context.Context, kind, url string) error {
	suffix := newSuffix()
	table, ledger := dynamostore.DefaultTable+suffix, ledgerTable+suffix
	there, err := site.Open(url, table, ledger)
	if err != nil {
		return fmt.Errorf("--store: %w", err)
	}
	if err = promptly(ctx, there.Check); err == nil {
		err = there.Create(ctx)
	}
	if err != nil { // Create has removed what it made
		there.Close()
		return fmt.Errorf("--store: %w", err)
	}
	s.elsewhere, s.keys, s.ledger = there, table, ledger
	s.variables = []string{
		"IDEMSK_STORE=" + kind, "IDEMSK_STORE_URL=" + url, "IDEMSK_TABLE=" + table,
		"IDEMSK_CONCURRENCY=8", // each has a connection, in each process
	}
	return nil
}

// Balances reads the ledger of the function with its store.
func (s *siteStore) Balances(ctx context.Context) (map[string]int64, error) {
	if s.elsewhere != nil {
		return s.elsewhere.Balances(ctx)
	}
	return s.Site.Balances(ctx)
}

// Statuses reads how the keys ended.
func (s *siteStore) Statuses(ctx context.Context) (map[string]store.Status, error) {
	if s.elsewhere != nil {
		return s.elsewhere.Statuses(ctx)
	}
	return s.Site.Statuses(ctx)
}

func (s *siteStore) startTables(o *Options) (err error) {
	if s.tables, err = dynamofake.New(dynamofake.Config{Addr: loopback(o.Ports.DynamoDB)}); err != nil {
		return err
	}
	if err := s.tables.Start(); err != nil {
		return fmt.Errorf("the DynamoDB in this process (--dynamodb-port): %w", err)
	}
	s.url = s.tables.URL()
	for _, table := range o.Tables {
		name, key, _ := strings.Cut(table, "=") // validate has looked
		if err := s.tables.CreateTable(dynamofake.Table{Name: name, HashKey: key}); err != nil {
			return fmt.Errorf("--create-table: %w", err)
		}
	}
	return nil
}

// queue makes a queue, if it is not there yet, and returns its URL.
func (s *siteStore) queue(ctx context.Context, name string) (string, error) {
	out, err := s.SQS.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name})
	if err != nil {
		return "", fmt.Errorf("creating the queue %s: %w", name, err)
	}
	return aws.ToString(out.QueueUrl), nil
}

// close removes the tables, unless they end with this process.
func (s *siteStore) close() error {
	var errs []error
	if s.elsewhere != nil {
		errs = append(errs, s.elsewhere.Remove(context.Background()))
		s.elsewhere.Close()
	}
	if s.tables != nil {
		errs = append(errs, s.tables.Close())
	} else if s.Dynamo != nil && s.Queue != "" {
		errs = append(errs, s.Remove(context.Background()))
	}
	errs = append(errs, s.queues.Close())
	s.transport.CloseIdleConnections()
	return errors.Join(errs...)
}

// usualLease is the function's, unless --env has another.
const usualLease = 5 * time.Second

// lease is how long the keys of a killed process stay taken; 0 if the function has none, or is not told.
func (o *Options) lease() time.Duration {
	if !o.ownStore() || o.Unprotected {
		return 0
	}
	if d, err := time.ParseDuration(o.variable("IDEMSK_LEASE")); err == nil {
		return d
	}
	return usualLease
}

// environment is what a function needs to know of the store. The lease is short, so that the keys of a killed process are soon
// free, and long enough for a machine that has other things to do: a process that it holds up would lose its keys alive.
func (s *siteStore) environment(o *Options) []string {
	failures := "batch"
	if slices.Contains(o.ESM.FunctionResponseTypes, esm.ReportBatchItemFailures) {
		failures = "partial"
	}
	env := []string{
		"AWS_ENDPOINT_URL_DYNAMODB=" + s.url, "AWS_ENDPOINT_URL_SQS=" + s.queues.URL(),
		"AWS_ACCESS_KEY_ID=" + AccessKeyID, "AWS_SECRET_ACCESS_KEY=" + AccessSecret,
		"IDEMSK_DEAD_LETTER_QUEUE_URL=" + s.Queue, "IDEMSK_FAILURES=" + failures,
		"IDEMSK_LEASE=" + usualLease.String(), "IDEMSK_MAX_CLOCK_SKEW=100ms",
	}
	if o.example() {
		env = append(env, "IDEMSK_LEDGER_TABLE="+s.Ledger, "IDEMSK_SIMULATE=on")
	}
	if o.audited() {
		env = append(env, "IDEMSK_AUDIT=on", "IDEMSK_AUDIT_TABLE="+s.Audit)
	}
	switch {
	case o.Unprotected:
		return append(env, "IDEMSK_STORE=none")
	case s.elsewhere != nil:
		env = append(env, s.variables...)
		if o.example() {
			env = append(env, "IDEMSK_LEDGER_TABLE="+s.ledger)
		}
		return env
	}
	return append(env, "IDEMSK_TABLE="+s.Table)
}

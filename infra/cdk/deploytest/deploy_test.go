//go:build rest

// Package deploytest deploys the very stack of infra/cdk to LocalStack, with the real function in it, changes
// it, and destroys it. What LocalStack pretends or ignores is not looked at here: IAM, point-in-time
// recovery, encryption, deletion protection, changes of alarms, of the table, and of the pollers, metrics and
// log level of an event source mapping, the dashboard, and the values that a parameter allows. The template
// tests in infra/cdk hold those.
package deploytest

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ddbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
)

const cluster = "arn:aws:kafka:us-east-1:000000000000:cluster/payments/6cc0432b-8618-4f44-bccc-e1fbd8fb7c4d-2"

// longest is how long one run of the CDK may take: seconds, but for the first, which compiles the app.
const longest = 5 * time.Minute

// outputs are the stack's.
type outputs struct {
	AliasArn, DeployedNamespace, EventSource1, FunctionName, TableName string
	OutboxTableName, RelayFunctionName, RelayEventSource               string

	DeadLetterQueueURL string `json:"DeadLetterQueueUrl"`
}

// stack is the deployed one.
type stack struct {
	*testing.T
	name, endpoint string
	assembly       string // folder of the template
	overlay        string // what the Go compiler reads in the place of files
	outputs        outputs
	db             *dynamodb.Client
	fn             *lambda.Client
	queue          *sqs.Client
}

func (s *stack) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func same[T comparable](s *stack, what string, got, want T) {
	s.Helper()
	if got != want {
		s.Errorf("%s is %v; want %v", what, got, want)
	}
}

func newStack(t *testing.T) *stack {
	t.Helper()
	endpoint := awstest.LocalStack(t)
	cfg := awstest.Config(t, endpoint)
	return &stack{
		T: t, name: awstest.Name("idemsk"), endpoint: endpoint, assembly: t.TempDir(),
		db: dynamodb.NewFromConfig(cfg), fn: lambda.NewFromConfig(cfg), queue: sqs.NewFromConfig(cfg),
	}
}

// cdk runs the CDK's command line as a user does. A profile of the caller's would take the place of
// LocalStack's credentials.
func (s *stack) cdk(ctx context.Context, args ...string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join("..", "..", "..", "scripts", "cdk.sh"), args...)
	cmd.WaitDelay = 10 * time.Second // what it has started may hold its output open
	cmd.Env = append(os.Environ(), "AWS_ENDPOINT_URL="+s.endpoint, "AWS_REGION=us-east-1",
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_SESSION_TOKEN=", "AWS_PROFILE=",
		"IDEMSK_APP="+app, "GOFLAGS=-overlay="+s.overlay)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.Fatalf("scripts/cdk.sh %v: %v\n%s", args, errors.Join(err, ctx.Err()), out)
	}
}

// app is the folder in infra/cdk of the app that is deployed. It exists for the Go compiler only: it has the
// files of infra/cdk with another props.go. A folder of its own, because others build infra/cdk at this time.
const app = "customised"

// customise has the app built with these statements in customise of props.go, as a team edits it.
func (s *stack) customise(statements string) {
	s.Helper()
	dir := s.TempDir()
	props := filepath.Join(dir, "props.go")
	s.must(os.WriteFile(props, []byte(`package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

func stackProps() *awscdk.StackProps { return &awscdk.StackProps{} }

func customise(_ awscdk.Stack, props *consumer.Props) {
	// With public brokers, because LocalStack has no VPC. The address does not exist.
	props.Outbox = &consumer.Outbox{Brokers: []string{"b-1.example.invalid:9198"}, Topics: []string{"credited"}}
	props.Function.Environment = map[string]string{"IDEMSK_LEDGER": "atomic", "IDEMSK_OUTBOX": "on", "IDEMSK_OUTBOX_TOPIC": "credited"}
	`+statements+`
}
`), 0o600))
	infra, err := filepath.Abs("..")
	s.must(err)
	files, err := filepath.Glob(filepath.Join(infra, "*.go"))
	s.must(err)
	replace := map[string]string{}
	for _, file := range files {
		if name := filepath.Base(file); !strings.HasSuffix(name, "_test.go") {
			replace[filepath.Join(infra, app, name)] = file
		}
	}
	replace[filepath.Join(infra, app, "props.go")] = props
	s.overlay = filepath.Join(dir, "overlay.json")
	s.must(os.WriteFile(s.overlay, s.json(map[string]any{"Replace": replace}), 0o600))
}

// context are the arguments that name the stack. Its template goes to a folder of the test's own: that of
// `make synth` stays.
func (s *stack) context() []string {
	args := []string{"--output", s.assembly}
	for _, value := range []string{
		"stackName=" + s.name, "example=ledger", "architecture=" + architecture(), "clusterArn=" + cluster, "topics=payments",
		"consumerGroup=payments-ledger", "ephemeral=true",
	} {
		args = append(args, "-c", value)
	}
	return args
}

func (s *stack) deploy(statements string) {
	s.Helper()
	s.customise(statements)
	file := filepath.Join(s.TempDir(), "outputs.json")
	s.cdk(s.Context(), append(append([]string{"deploy"}, s.context()...), "--require-approval",
		"never", "--outputs-file", file)...)
	data, err := os.ReadFile(file)
	s.must(err)
	var all map[string]outputs
	s.must(json.Unmarshal(data, &all))
	s.outputs = all[s.name]
}

func (s *stack) destroy(ctx context.Context) {
	s.Helper()
	s.cdk(ctx, append(append([]string{"destroy"}, s.context()...), "--force")...)
}

// deliver hands an event of events/ to the alias, and wants nothing of it to be reported.
func (s *stack) deliver(event string) {
	s.Helper()
	payload, err := os.ReadFile(filepath.Join("..", "..", "..", "events", event+".json"))
	s.must(err)
	out, err := s.fn.Invoke(s.Context(),
		&lambda.InvokeInput{FunctionName: &s.outputs.AliasArn, Payload: payload})
	s.must(err)
	if out.FunctionError != nil {
		s.Fatalf("%s: the function failed: %s", event, out.Payload)
	}
	var resp msk.Response
	s.must(json.Unmarshal(out.Payload, &resp))
	if len(resp.BatchItemFailures) > 0 {
		s.Errorf("%s: the function reports %s", event, out.Payload)
	}
}

// record is what the table of keys holds.
func (s *stack) record(key string, status store.Status) store.Entry {
	s.Helper()
	st, err := dynamostore.New(s.db, dynamostore.Config{Table: s.outputs.TableName})
	s.must(err)
	entry, err := st.Get(s.Context(), key)
	s.must(err)
	same(s, "status of "+key, entry.Status, status)
	return entry
}

// balance is that of account acc-1 in the example's ledger.
func (s *stack) balance(ledger string) string {
	s.Helper()
	out, err := s.db.GetItem(s.Context(), &dynamodb.GetItemInput{
		TableName: &ledger, ConsistentRead: aws.Bool(true),
		Key: map[string]ddbtypes.AttributeValue{"account": &ddbtypes.AttributeValueMemberS{Value: "acc-1/EUR"}},
	})
	s.must(err)
	balance, ok := out.Item["balance"].(*ddbtypes.AttributeValueMemberN)
	if !ok {
		s.Fatalf("the ledger %s has no balance of acc-1: %v", ledger, out.Item)
	}
	return balance.Value
}

func TestDeployChangeAndDestroy(t *testing.T) {
	s := newStack(t)
	s.cdk(t.Context(), "bootstrap", "aws://000000000000/us-east-1")
	gone := false
	t.Cleanup(func() {
		if !gone { // the test's own context has ended by now
			s.destroy(context.Background())
		}
	})
	s.deploy("")
	s.checkTable()
	s.checkQueue()
	ledger := s.checkFunction("5")["IDEMSK_LEDGER_TABLE"]
	s.checkEventSource(100)
	s.checkOutbox()
	version := s.aliasVersion()

	s.deliver("one-record")
	same(s, "balance", s.balance(ledger), "1250")
	s.deliver("one-record")
	same(s, "balance after the second delivery", s.balance(ledger), "1250")
	s.deliver("duplicate-in-batch")
	same(s, "balance after two payments in three records", s.balance(ledger), "4250")
	s.deliver("bad-json-value")
	same(s, "balance after a record that can't be read, and one that can", s.balance(ledger), "5600")
	s.checkDeadLetter("payments-0@6400", "payments-ledger#payments#bad-json-value-1",
		`{"paymentId":"bad-json-value-1","amount":`)
	before := s.record("payments-ledger#payments#one-record-1", store.StatusCompleted)

	s.deploy("props.Idempotency.MaxAttempts, props.Source.BatchSize = 3, 50")
	same(s, "the ledger after the update", s.checkFunction("3")["IDEMSK_LEDGER_TABLE"], ledger)
	s.checkEventSource(50)
	if now := s.aliasVersion(); now == version {
		t.Errorf("the alias still points at version %s", version)
	}
	for _, event := range []string{"one-record", "duplicate-in-batch", "bad-json-value"} {
		s.deliver(event)
	}
	same(s, "balance after all of it again", s.balance(ledger), "5600")
	after := s.record("payments-ledger#payments#one-record-1", store.StatusCompleted)
	same(s, "version of a key of before", after.Token, before.Token)
	same(s, "owner of a key of before", after.Owner, before.Owner)
	s.checkEvents("one-record", "duplicate-in-batch", "bad-json-value")

	s.destroy(t.Context())
	gone = true
	s.checkGone(ledger)
}

func (s *stack) checkTable() {
	s.Helper()
	out, err := s.db.DescribeTable(s.Context(), &dynamodb.DescribeTableInput{TableName: &s.outputs.TableName})
	s.must(err)
	same(s, "number of key attributes", len(out.Table.KeySchema), 1)
	same(s, "key", aws.ToString(out.Table.KeySchema[0].AttributeName), dynamostore.AttrKey)
	same(s, "billing", out.Table.BillingModeSummary.BillingMode, ddbtypes.BillingModePayPerRequest)
	ttl, err := s.db.DescribeTimeToLive(s.Context(),
		&dynamodb.DescribeTimeToLiveInput{TableName: &s.outputs.TableName})
	s.must(err)
	same(s, "TTL attribute", aws.ToString(ttl.TimeToLiveDescription.AttributeName), dynamostore.AttrExpiry)
	same(s, "TTL", ttl.TimeToLiveDescription.TimeToLiveStatus, ddbtypes.TimeToLiveStatusEnabled)
}

func (s *stack) checkQueue() {
	s.Helper()
	out, err := s.queue.GetQueueAttributes(s.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl:       &s.outputs.DeadLetterQueueURL,
		AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameAll},
	})
	s.must(err)
	const fourteenDays = "1209600"
	same(s, "retention of dead letters", out.Attributes["MessageRetentionPeriod"], fourteenDays)
	if !strings.Contains(out.Attributes["Policy"], "aws:SecureTransport") {
		s.Errorf("the queue's policy admits requests without TLS: %s", out.Attributes["Policy"])
	}
}

// checkFunction compares the configuration of the version that the alias points at, and returns its
// environment.
func (s *stack) checkFunction(attempts string) map[string]string {
	s.Helper()
	out, err := s.fn.GetFunctionConfiguration(s.Context(), &lambda.GetFunctionConfigurationInput{
		FunctionName: &s.outputs.FunctionName, Qualifier: aws.String(s.aliasVersion()),
	})
	s.must(err)
	same(s, "runtime", out.Runtime, types.RuntimeProvidedal2023)
	env := out.Environment.Variables
	same(s, "IDEMSK_TABLE", env["IDEMSK_TABLE"], s.outputs.TableName)
	same(s, "IDEMSK_NAMESPACE", env["IDEMSK_NAMESPACE"], "payments-ledger")
	same(s, "IDEMSK_FAILURES", env["IDEMSK_FAILURES"], "partial")
	same(s, "IDEMSK_DEAD_LETTER_QUEUE_URL", env["IDEMSK_DEAD_LETTER_QUEUE_URL"], s.outputs.DeadLetterQueueURL)
	same(s, "IDEMSK_MAX_ATTEMPTS", env["IDEMSK_MAX_ATTEMPTS"], attempts)
	return env
}

func (s *stack) aliasVersion() string {
	s.Helper()
	_, name, _ := strings.Cut(s.outputs.AliasArn, s.outputs.FunctionName+":")
	out, err := s.fn.GetAlias(s.Context(),
		&lambda.GetAliasInput{FunctionName: &s.outputs.FunctionName, Name: &name})
	s.must(err)
	if version := aws.ToString(out.FunctionVersion); version != "" && version != "$LATEST" {
		return version
	}
	s.Errorf("the alias points at %q; want a version", aws.ToString(out.FunctionVersion))
	return ""
}

// checkEventSource lists the mappings of the alias and compares all that the one there says. Nothing in
// LocalStack polls it.
func (s *stack) checkEventSource(batchSize int32) {
	s.Helper()
	out, err := s.fn.ListEventSourceMappings(s.Context(),
		&lambda.ListEventSourceMappingsInput{FunctionName: &s.outputs.AliasArn})
	s.must(err)
	if len(out.EventSourceMappings) != 1 {
		s.Fatalf("%d event source mappings of the alias; want 1", len(out.EventSourceMappings))
	}
	got := out.EventSourceMappings[0]
	// LocalStack's own, not the template's; and what its 4.9.2, of Python 3.11 and 3.12, does not know.
	got.EventSourceMappingArn, got.LastModified, got.State, got.StateTransitionReason = nil, nil, nil, nil
	got.LoggingConfig = nil
	want := types.EventSourceMappingConfiguration{
		UUID: &s.outputs.EventSource1, FunctionArn: &s.outputs.AliasArn, EventSourceArn: aws.String(cluster),
		Topics:                              []string{"payments"},
		AmazonManagedKafkaEventSourceConfig: &types.AmazonManagedKafkaEventSourceConfig{ConsumerGroupId: aws.String("payments-ledger")},
		StartingPosition:                    types.EventSourcePositionTrimHorizon,
		BatchSize:                           &batchSize,
		BisectBatchOnFunctionError:          aws.Bool(true),
		MaximumRetryAttempts:                aws.Int32(-1),
		MaximumRecordAgeInSeconds:           aws.Int32(-1),
		FunctionResponseTypes:               []types.FunctionResponseType{types.FunctionResponseTypeReportBatchItemFailures},
		ProvisionedPollerConfig: &types.ProvisionedPollerConfig{MinimumPollers: aws.Int32(1),
			MaximumPollers: aws.Int32(10)},
		MetricsConfig: &types.EventSourceMappingMetricsConfig{Metrics: []types.EventSourceMappingMetric{
			types.EventSourceMappingMetricEventCount, types.EventSourceMappingMetricErrorCount,
			types.EventSourceMappingMetricKafkaMetrics,
		}},
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[types.EventSourceMappingConfiguration]()) {
		if !field.IsExported() {
			continue
		}
		is, should := reflect.ValueOf(got).FieldByIndex(field.Index).Interface(),
			reflect.ValueOf(want).FieldByIndex(field.Index).Interface()
		if !reflect.DeepEqual(is, should) {
			s.Errorf("the event source mapping's %s is %s; want %s", field.Name, s.json(is), s.json(should))
		}
	}
}

func (s *stack) json(v any) []byte {
	s.Helper()
	data, err := json.Marshal(v)
	s.must(err)
	return data
}

// checkDeadLetter wants one letter in the queue, with the record in it, and its key FAILED at the letter's
// version.
func (s *stack) checkDeadLetter(source, key, value string) {
	s.Helper()
	letters := s.takeDeadLetters()
	if len(letters) != 1 {
		s.Fatalf("%d dead letters; want 1", len(letters))
	}
	letter := letters[0]
	same(s, "source of the dead letter", letter.Source(), source)
	same(s, "key of the dead letter", letter.IdempotencyKey, key)
	same(s, "value of the dead letter", string(letter.Value), value)
	same(s, "version of the dead letter", letter.Token, s.record(key, store.StatusFailed).Token)
}

// takeDeadLetters empties the queue: of at most ten, as a sample leaves no more.
func (s *stack) takeDeadLetters() []kafka.DeadLetter {
	s.Helper()
	out, err := s.queue.ReceiveMessage(s.Context(),
		&sqs.ReceiveMessageInput{QueueUrl: &s.outputs.DeadLetterQueueURL, MaxNumberOfMessages: 10})
	s.must(err)
	letters := make([]kafka.DeadLetter, len(out.Messages))
	for i, m := range out.Messages {
		letters[i], err = kafka.ParseDeadLetter([]byte(aws.ToString(m.Body)))
		s.must(err)
		_, err = s.queue.DeleteMessage(s.Context(),
			&sqs.DeleteMessageInput{QueueUrl: &s.outputs.DeadLetterQueueURL, ReceiptHandle: m.ReceiptHandle})
		s.must(err)
	}
	return letters
}

func (s *stack) checkGone(ledger string) {
	s.Helper()
	for _, table := range []string{s.outputs.TableName, ledger, s.outputs.OutboxTableName} {
		_, err := s.db.DescribeTable(s.Context(), &dynamodb.DescribeTableInput{TableName: &table})
		var missing *ddbtypes.ResourceNotFoundException
		if !errors.As(err, &missing) {
			s.Errorf("the table %s is still there: %v", table, err)
		}
	}
	_, err := s.fn.GetFunction(s.Context(), &lambda.GetFunctionInput{FunctionName: &s.outputs.FunctionName})
	var missing *types.ResourceNotFoundException
	if !errors.As(err, &missing) {
		s.Errorf("the function is still there: %v", err)
	}
	if _, err := s.fn.GetEventSourceMapping(s.Context(),
		&lambda.GetEventSourceMappingInput{UUID: &s.outputs.EventSource1}); !errors.As(err, &missing) {
		s.Errorf("the event source mapping is still there: %v", err)
	}
	var noQueue *sqstypes.QueueDoesNotExist
	_, err = s.queue.GetQueueAttributes(s.Context(),
		&sqs.GetQueueAttributesInput{QueueUrl: &s.outputs.DeadLetterQueueURL})
	if !errors.As(err, &noQueue) {
		s.Errorf("the queue of dead letters is still there: %v", err)
	}
}

//go:build localstack

// Package deploytest deploys the very stack of infra/cdk to LocalStack, with the real function in it, changes it, and destroys
// it. What LocalStack pretends or ignores is not looked at here: IAM, point-in-time recovery, encryption, changes of alarms and
// of the table, the dashboard, and the values that a parameter allows. The template tests in infra/cdk hold those.
package deploytest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ddbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/lambda/msk"
)

const cluster = "arn:aws:kafka:us-east-1:000000000000:cluster/payments/6cc0432b-8618-4f44-bccc-e1fbd8fb7c4d-2"

// outputs are the stack's.
type outputs struct {
	AliasArn, DeployedNamespace, EventSource1, FunctionName, TableName string

	DeadLetterQueueURL string `json:"DeadLetterQueueUrl"`
}

// stack is the deployed one.
type stack struct {
	*testing.T
	name, endpoint string
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
	endpoint := os.Getenv("IDEMSK_TEST_ENDPOINT")
	if endpoint == "" {
		t.Fatal("IDEMSK_TEST_ENDPOINT is not set: run `make test`, or `make localstack-up` and set it to http://127.0.0.1:4566")
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	cfg := aws.Config{
		Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient: &http.Client{Transport: transport},
	}
	return &stack{
		T: t, name: "idemsk-" + strings.ToLower(rand.Text()[:8]), endpoint: endpoint,
		db: dynamodb.NewFromConfig(cfg), fn: lambda.NewFromConfig(cfg), queue: sqs.NewFromConfig(cfg),
	}
}

// cdk runs the CDK's command line as a user does.
func (s *stack) cdk(ctx context.Context, args ...string) {
	s.Helper()
	cmd := exec.CommandContext(ctx, filepath.Join("..", "..", "scripts", "cdk.sh"), args...)
	cmd.Env = append(os.Environ(), "AWS_ENDPOINT_URL="+s.endpoint, "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test")
	if out, err := cmd.CombinedOutput(); err != nil {
		s.Fatalf("scripts/cdk.sh %v: %v\n%s", args, err, out)
	}
}

func (s *stack) settings(more ...string) []string {
	architecture := map[string]string{"amd64": "x86_64", "arm64": "arm64"}[runtime.GOARCH]
	args := []string{}
	for _, setting := range append([]string{
		"stackName=" + s.name, "architecture=" + architecture, "clusterArn=" + cluster, "topics=payments", "consumerGroup=payments-ledger",
		"removalPolicy=destroy", "deletionProtection=false",
	}, more...) {
		args = append(args, "-c", setting)
	}
	return args
}

func (s *stack) deploy(settings ...string) {
	s.Helper()
	file := filepath.Join(s.TempDir(), "outputs.json")
	s.cdk(s.Context(), append(append([]string{"deploy"}, s.settings(settings...)...), "--require-approval", "never", "--outputs-file", file)...)
	data, err := os.ReadFile(file)
	s.must(err)
	var all map[string]outputs
	s.must(json.Unmarshal(data, &all))
	s.outputs = all[s.name]
}

func (s *stack) destroy(ctx context.Context) {
	s.Helper()
	s.cdk(ctx, append(append([]string{"destroy"}, s.settings()...), "--force")...)
}

// invoke delivers a sample event through the alias; fail is what the event source would be told of.
func (s *stack) invoke(event string) (fail string) {
	s.Helper()
	payload, err := os.ReadFile(filepath.Join("..", "..", "events", event+".json"))
	s.must(err)
	out, err := s.fn.Invoke(s.Context(), &lambda.InvokeInput{FunctionName: &s.outputs.AliasArn, Payload: payload})
	s.must(err)
	if out.FunctionError != nil {
		return string(out.Payload)
	}
	var resp msk.Response
	s.must(json.Unmarshal(out.Payload, &resp))
	if len(resp.BatchItemFailures) > 0 {
		return string(out.Payload)
	}
	return ""
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
	s.deploy()
	gone := false
	t.Cleanup(func() {
		if !gone { // the test's own context has ended by now
			s.destroy(context.Background())
		}
	})
	s.checkTable()
	s.checkQueue()
	env := s.checkFunction("5")
	s.checkEventSource(100)
	version := s.aliasVersion()

	same(s, "failure of the first delivery", s.invoke("one-record"), "")
	same(s, "balance", s.balance(env["IDEMSK_LEDGER_TABLE"]), "1250")
	same(s, "failure of the second delivery", s.invoke("one-record"), "")
	same(s, "balance after it", s.balance(env["IDEMSK_LEDGER_TABLE"]), "1250")
	same(s, "failure of a record that can't succeed", s.invoke("bad-json-value"), "")
	s.checkDeadLetter("payments-0@6400")
	same(s, "balance, with the record beside it", s.balance(env["IDEMSK_LEDGER_TABLE"]), "2600")

	s.deploy("maxAttempts=3", "batchSize=50")
	s.checkFunction("3")
	s.checkEventSource(50)
	if now := s.aliasVersion(); now == version {
		t.Errorf("the alias still points at version %s", version)
	}
	same(s, "failure of a delivery after the update", s.invoke("one-record"), "")
	same(s, "balance, with the keys of before", s.balance(env["IDEMSK_LEDGER_TABLE"]), "2600")

	s.destroy(t.Context())
	gone = true
	s.checkGone(env["IDEMSK_LEDGER_TABLE"])
}

func (s *stack) checkTable() {
	s.Helper()
	out, err := s.db.DescribeTable(s.Context(), &dynamodb.DescribeTableInput{TableName: &s.outputs.TableName})
	s.must(err)
	same(s, "number of key attributes", len(out.Table.KeySchema), 1)
	same(s, "key", aws.ToString(out.Table.KeySchema[0].AttributeName), dynamostore.AttrKey)
	same(s, "billing", out.Table.BillingModeSummary.BillingMode, ddbtypes.BillingModePayPerRequest)
	ttl, err := s.db.DescribeTimeToLive(s.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &s.outputs.TableName})
	s.must(err)
	same(s, "TTL attribute", aws.ToString(ttl.TimeToLiveDescription.AttributeName), dynamostore.AttrExpiry)
	same(s, "TTL", ttl.TimeToLiveDescription.TimeToLiveStatus, ddbtypes.TimeToLiveStatusEnabled)
}

func (s *stack) checkQueue() {
	s.Helper()
	out, err := s.queue.GetQueueAttributes(s.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: &s.outputs.DeadLetterQueueURL, AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameAll},
	})
	s.must(err)
	const fourteenDays = "1209600"
	same(s, "retention of dead letters", out.Attributes["MessageRetentionPeriod"], fourteenDays)
	if !strings.Contains(out.Attributes["Policy"], "aws:SecureTransport") {
		s.Errorf("the queue's policy admits requests without TLS: %s", out.Attributes["Policy"])
	}
}

// checkFunction compares the configuration of the version that the alias points at, and returns its environment.
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
	out, err := s.fn.GetAlias(s.Context(), &lambda.GetAliasInput{FunctionName: &s.outputs.FunctionName, Name: &name})
	s.must(err)
	if version := aws.ToString(out.FunctionVersion); version != "" && version != "$LATEST" {
		return version
	}
	s.Errorf("the alias points at %q; want a version", aws.ToString(out.FunctionVersion))
	return ""
}

// checkEventSource reads the mapping. Nothing in LocalStack polls it.
func (s *stack) checkEventSource(batchSize int32) {
	s.Helper()
	out, err := s.fn.GetEventSourceMapping(s.Context(), &lambda.GetEventSourceMappingInput{UUID: &s.outputs.EventSource1})
	s.must(err)
	same(s, "cluster", aws.ToString(out.EventSourceArn), cluster)
	same(s, "topics", strings.Join(out.Topics, " "), "payments")
	same(s, "consumer group", aws.ToString(out.AmazonManagedKafkaEventSourceConfig.ConsumerGroupId), "payments-ledger")
	same(s, "batch size", aws.ToInt32(out.BatchSize), batchSize)
	same(s, "starting position", out.StartingPosition, types.EventSourcePositionTrimHorizon)
	same(s, "bisect", aws.ToBool(out.BisectBatchOnFunctionError), true)
	same(s, "retries", aws.ToInt32(out.MaximumRetryAttempts), -1)
	same(s, "reports failures", slices.Contains(out.FunctionResponseTypes, types.FunctionResponseTypeReportBatchItemFailures), true)
	if p := out.ProvisionedPollerConfig; p == nil || aws.ToInt32(p.MinimumPollers) != 1 || aws.ToInt32(p.MaximumPollers) != 10 {
		s.Errorf("provisioned pollers are %+v; want 1 to 10", p)
	}
}

func (s *stack) checkDeadLetter(source string) {
	s.Helper()
	out, err := s.queue.ReceiveMessage(s.Context(), &sqs.ReceiveMessageInput{QueueUrl: &s.outputs.DeadLetterQueueURL, MaxNumberOfMessages: 10})
	s.must(err)
	if len(out.Messages) != 1 {
		s.Fatalf("%d dead letters; want 1", len(out.Messages))
	}
	letter, err := msk.ParseDeadLetter([]byte(aws.ToString(out.Messages[0].Body)))
	s.must(err)
	same(s, "source of the dead letter", letter.Source(), source)
}

func (s *stack) checkGone(ledger string) {
	s.Helper()
	for _, table := range []string{s.outputs.TableName, ledger} {
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
	if _, err := s.fn.GetEventSourceMapping(s.Context(), &lambda.GetEventSourceMappingInput{UUID: &s.outputs.EventSource1}); !errors.As(err, &missing) {
		s.Errorf("the event source mapping is still there: %v", err)
	}
}

//go:build rest

package fromlocalstack_test

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/cli"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/oracle"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/payments"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/testenv"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/verify"
	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/internal/subprocess/serverproc"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
)

const topic = "payments"

// deployment is a function with its test environment and its event source mapping in LocalStack, all of one
// name.
type deployment struct {
	*testenv.Environment

	name, endpoint string
	cfg            aws.Config
	lambda         *lambda.Client
}

func deploy(t *testing.T) *deployment {
	t.Helper()
	endpoint := awstest.LocalStack(t)
	cfg := awstest.Config(t, endpoint)
	name := awstest.Name("idemsk-e2e")
	env, err := testenv.InDynamoDB(dynamodb.NewFromConfig(cfg),
		testenv.Names{Keys: name, Ledger: name + "-ledger"}, sqs.NewFromConfig(cfg))
	if err == nil {
		err = env.Create(t.Context(), name)
	}
	if err != nil {
		t.Fatal(err)
	}
	d := &deployment{Environment: env, name: name, endpoint: endpoint, cfg: cfg,
		lambda: lambda.NewFromConfig(cfg)}
	awstest.AtEnd(t, d.Remove)
	d.createFunction(t)
	d.createMapping(t)
	return d
}

func (d *deployment) createFunction(t *testing.T) {
	t.Helper()
	_, err := d.lambda.CreateFunction(t.Context(), &lambda.CreateFunctionInput{
		FunctionName: &d.name, Runtime: types.RuntimeProvidedal2023, Handler: aws.String("bootstrap"),
		Timeout: aws.Int32(60),
		Role:    aws.String("arn:aws:iam::000000000000:role/idemsk"),
		Code:    &types.FunctionCode{ZipFile: awstest.Package(t, handler)},
		Environment: &types.Environment{Variables: map[string]string{
			"IDEMSK_TABLE": d.Keys, "IDEMSK_LEDGER_TABLE": d.Ledger, "IDEMSK_DEAD_LETTER_QUEUE_URL": d.Queue,
			"IDEMSK_FAILURES": "partial", "IDEMSK_SIMULATE": "on", "IDEMSK_LEASE": "30s",
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	awstest.AtEnd(t, func(ctx context.Context) error {
		_, err := d.lambda.DeleteFunction(ctx, &lambda.DeleteFunctionInput{FunctionName: &d.name})
		return err
	})
	if err := lambda.NewFunctionActiveV2Waiter(d.lambda).Wait(t.Context(),
		&lambda.GetFunctionInput{FunctionName: &d.name}, time.Minute); err != nil {
		t.Fatal(err)
	}
	version, err := d.lambda.PublishVersion(t.Context(), &lambda.PublishVersionInput{FunctionName: &d.name})
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.lambda.CreateAlias(t.Context(),
		&lambda.CreateAliasInput{FunctionName: &d.name, Name: aws.String(alias),
			FunctionVersion: version.Version})
	if err != nil {
		t.Fatal(err)
	}
}

// alias is the alias that the event source mapping invokes, as with the construct.
const alias = "live"

// createMapping creates the event source mapping by CloudFormation, as CDK and SAM do, on the function's
// alias.
func (d *deployment) createMapping(t *testing.T) {
	t.Helper()
	deployStack(t, d.cfg, d.name, map[string]any{"Mapping": map[string]any{
		"Type": "AWS::Lambda::EventSourceMapping",
		"Properties": map[string]any{
			"FunctionName": d.name + ":" + alias, "Topics": []string{topic}, "BatchSize": 200,
			"MaximumBatchingWindowInSeconds":      1,
			"EventSourceArn":                      "arn:aws:kafka:us-east-1:000000000000:cluster/local/00000000-0000-0000-0000-000000000000-1",
			"StartingPosition":                    "TRIM_HORIZON",
			"FunctionResponseTypes":               []string{"ReportBatchItemFailures"},
			"AmazonManagedKafkaEventSourceConfig": map[string]any{"ConsumerGroupId": d.name},
		},
	}})
}

// idemsk local serves an event source mapping that CloudFormation deployed in LocalStack, from a real Kafka.
// Tables, function and queue are in LocalStack.
func TestFromLocalStack(t *testing.T) {
	const records, seed = 2000, 7
	d := deploy(t)
	brokers := testkit.Run(t, serverproc.StartScript, serverproc.Kafka).Addr()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Minute, errors.New("the test took too long"))
	defer cancel()
	var out, said bytes.Buffer
	if code := cli.Main(ctx, []string{"topic", "create", topic, "--brokers", brokers, "--partitions", "6"},
		cli.Streams{Err: &said}, "test"); code != 0 {
		t.Fatalf("exit status %d: %s", code, &said)
	}
	code := cli.Main(ctx, []string{
		"local", "--from-localstack", "--endpoint-url", d.endpoint, "--function-name", d.name, "--brokers",
		brokers,
		"--produce", strconv.Itoa(records), "--seed", strconv.Itoa(seed), "--until-drained", "--duplicate",
		"0.3",
	}, cli.Streams{Out: &out, Err: &said}, "test")
	t.Logf("%s\n%s", &said, &out)
	if code != 0 || !strings.Contains(out.String(), "2,000 done") ||
		!strings.Contains(out.String(), "everything is committed") {
		t.Fatalf("exit status %d", code)
	}
	if !strings.Contains(said.String(), "topic payments, group "+d.name+
		", batches of 200, to arn:aws:lambda:us-east-1:000000000000:function:"+d.name+":"+alias) {
		t.Error("the mapping's parameters were not used")
	}
	d.check(t, records, seed)
}

// check verifies the generated payments.
func (d *deployment) check(t *testing.T, records int, seed uint64) {
	t.Helper()
	rules, err := oracle.ReadRules(d.name, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := oracle.New(rules)
	for m, err := range (payments.Config{Records: records, Seed: seed}).Messages(topic) {
		if err != nil {
			t.Fatal(err)
		}
		if err := want.Add([]mskevent.Record{m.Record()}); err != nil {
			t.Fatal(err)
		}
	}
	found, err := d.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	messages, err := d.Messages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	letters, err := testenv.ParseLetters(messages)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range verify.Run(want, found, letters, nil, 0).Problems {
		t.Error(problem)
	}
	if failed := len(found.Statuses) - want.Booked(); len(letters) != failed {
		t.Errorf("%d dead letters for %d keys that failed", len(letters), failed)
	}
}

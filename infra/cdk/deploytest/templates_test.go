//go:build rest

package deploytest

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfntypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
)

// architecture is what Lambda calls that of this machine.
func architecture() string {
	return map[string]string{"amd64": "x86_64", "arm64": "arm64"}[runtime.GOARCH]
}

// repository returns a file of the repository.
func repository(t *testing.T, names ...string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(append([]string{"..", "..", ".."}, names...)...))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// zipped returns an archive with one program.
func zipped(t *testing.T, name string, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	archive := zip.NewWriter(&b)
	header := &zip.FileHeader{Name: name, Method: zip.Deflate}
	header.SetMode(0o755)
	w, err := archive.CreateHeader(header)
	if err == nil {
		_, err = w.Write(content)
	}
	if err = cmp.Or(err, archive.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// deployTemplate deploys a template, as aws cloudformation package and deploy or sam deploy do: artifacts are by the path
// that the template has. It returns the function and its event source. The stack is deleted when the test ends.
func (s *stack) deployTemplate(template string, artifacts map[string][]byte) (*types.FunctionConfiguration,
	*types.EventSourceMappingConfiguration) {
	s.Helper()
	cfg, bucket := awstest.Config(s.T, s.endpoint), awstest.Name("artifacts")
	objects := s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = true })
	_, err := objects.CreateBucket(s.Context(), &s3.CreateBucketInput{Bucket: &bucket})
	s.must(err)
	for path, content := range artifacts {
		key := filepath.Base(path)
		_, err := objects.PutObject(s.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: bytes.NewReader(content)})
		s.must(err)
		packaged := regexp.MustCompile(`(Code|CodeUri|ContentUri): `+regexp.QuoteMeta(path)+"\n").ReplaceAllStringFunc(template,
			func(line string) string {
				if strings.HasPrefix(line, "Code:") {
					return "Code: { S3Bucket: " + bucket + ", S3Key: " + key + " }\n"
				}
				return strings.Split(line, " ")[0] + " s3://" + bucket + "/" + key + "\n"
			})
		if packaged == template {
			s.Fatalf("the template has no %s", path)
		}
		template = packaged
	}
	stacks := cloudformation.NewFromConfig(cfg)
	s.create(stacks, template)
	sources, err := s.fn.ListEventSourceMappings(s.Context(), &lambda.ListEventSourceMappingsInput{})
	s.must(err)
	i := slices.IndexFunc(sources.EventSourceMappings, func(m types.EventSourceMappingConfiguration) bool {
		return strings.Contains(aws.ToString(m.FunctionArn), ":function:"+s.name)
	})
	if i < 0 {
		s.Fatalf("no event source mapping of a function of %s: %s", s.name, s.json(sources.EventSourceMappings))
	}
	source := &sources.EventSourceMappings[i]
	out, err := s.fn.GetFunction(s.Context(), &lambda.GetFunctionInput{FunctionName: source.FunctionArn})
	s.must(err)
	s.outputs.AliasArn = aws.ToString(source.FunctionArn)
	s.outputs.TableName = out.Configuration.Environment.Variables["IDEMSK_TABLE"]
	return out.Configuration, source
}

// create creates the stack of a template.
func (s *stack) create(stacks *cloudformation.Client, template string) {
	s.Helper()
	parameter := func(name, value string) cfntypes.Parameter {
		return cfntypes.Parameter{ParameterKey: &name, ParameterValue: &value}
	}
	_, err := stacks.CreateStack(s.Context(), &cloudformation.CreateStackInput{
		StackName: &s.name, TemplateBody: &template,
		Capabilities: []cfntypes.Capability{cfntypes.CapabilityCapabilityIam, cfntypes.CapabilityCapabilityAutoExpand},
		Parameters: []cfntypes.Parameter{
			parameter("Cluster", strings.TrimPrefix(cluster, "arn:aws:kafka:us-east-1:000000000000:cluster/")),
			parameter("Topic", "payments"), parameter("ConsumerGroup", "payments-ledger"),
		},
	})
	s.must(err)
	named := &cloudformation.DescribeStacksInput{StackName: &s.name}
	s.Cleanup(func() {
		if _, err := stacks.DeleteStack(context.Background(), &cloudformation.DeleteStackInput{StackName: &s.name}); err != nil {
			s.Error(err)
		}
	})
	waiter := cloudformation.NewStackCreateCompleteWaiter(stacks, func(o *cloudformation.StackCreateCompleteWaiterOptions) {
		o.MinDelay, o.MaxDelay = time.Second, time.Second
	})
	if err := waiter.Wait(s.Context(), named, longest); err != nil {
		events, _ := stacks.DescribeStackEvents(s.Context(), &cloudformation.DescribeStackEventsInput{StackName: &s.name})
		s.Fatalf("%v: %s", err, s.json(events))
	}
}

// checkSource compares what the event source must be given.
func (s *stack) checkSource(source *types.EventSourceMappingConfiguration) {
	s.Helper()
	same(s, "batch size", aws.ToInt32(source.BatchSize), 100)
	same(s, "group", aws.ToString(source.AmazonManagedKafkaEventSourceConfig.ConsumerGroupId), "payments-ledger")
	same(s, "topics", strings.Join(source.Topics, " "), "payments")
	same(s, "answers", len(source.FunctionResponseTypes), 1)
}

// The template without CDK, with the example beside it, handles records.
func TestTemplateWithoutCDK(t *testing.T) {
	template := string(repository(t, "deploy", "cloudformation", "template.yaml"))
	s, ledger := newStack(t), awstest.Name("ledger")
	awstest.CreateTable(t, s.db, ledger, "account")
	const table = "IDEMSK_TABLE: !Ref Table\n"
	template = strings.Replace(template, table, table+"          IDEMSK_LEDGER_TABLE: "+ledger+"\n", 1)
	_, source := s.deployTemplate(strings.ReplaceAll(template, "arm64", architecture()), map[string][]byte{
		"./function": zipped(t, "bootstrap", repository(t, "dist", "handler-"+runtime.GOARCH, "bootstrap")),
	})
	s.checkSource(source)
	for range 2 {
		s.deliver("one-record")
	}
	s.record("payments-ledger#payments#one-record-1", store.StatusCompleted)
	same(s, "balance after two deliveries", s.balance(ledger), "1250")
}

// This LocalStack has no Python and no layers, so the function gets another runtime and is not invoked. The
// layer's own tests do that.
func TestApplicationOfTheLayer(t *testing.T) {
	layer := "idemsk-layer-" + architecture() + ".zip"
	template := strings.ReplaceAll(string(repository(t, "deploy", "sam", "template.yaml")), "arm64", architecture())
	template = strings.Replace(template, "Runtime: python3.13", "Runtime: provided.al2023", 1)
	s := newStack(t)
	function, source := s.deployTemplate(template, map[string][]byte{
		layer: repository(t, "dist", layer),
		"src": zipped(t, "app.py", repository(t, "deploy", "sam", "src", "app.py")),
	})
	s.checkSource(source)
	same(s, "layers", len(function.Layers), 1)
	same(s, "variables", strings.Join(slices.Sorted(maps.Keys(function.Environment.Variables)), " "),
		"AWS_LAMBDA_EXEC_WRAPPER IDEMSK_DEAD_LETTER_QUEUE_URL IDEMSK_FAILURES IDEMSK_NAMESPACE IDEMSK_TABLE")
}

package schemaenv_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/app/lambda"
	"github.com/idemsk/idemsk/cmd/internal/schemaenv"
	"github.com/idemsk/idemsk/internal/fake/gluefake"
	"github.com/idemsk/idemsk/internal/fake/sqsfake"
	"github.com/idemsk/idemsk/internal/layercall"
	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/lambda/msk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The registries, as IDEMSK_SCHEMA_REGISTRY names them.
const (
	confluent = "the URL of Confluent's"
	glue      = "arn:aws:glue:us-east-1:000000000000:registry/payments"
)

// The schemas of payments, by their numbers, and of a key. Those of Glue have UUIDs with these numbers.
const (
	avroID  = 7
	protoID = 8
	jsonID  = 9
	keyID   = 10
)

const avroSchema = `{"type":"record","name":"Payment","fields":[{"name":"paymentId","type":"string"},` +
	`{"name":"amount","type":"long"}]}`

const protoSchema = `syntax = "proto3";
message Payment { string payment_id = 1 [json_name = "paymentId"]; int64 amount = 2; }`

// registries is a registry of each kind.
type registries struct {
	confluent *srfake.Registry
	glueURL   string
}

func newRegistries(t *testing.T) *registries {
	t.Helper()
	r := &registries{confluent: srfake.New()}
	t.Cleanup(r.confluent.Close)
	g := gluefake.New()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Authorization"), "/us-east-1/glue/") {
			t.Error("the request is not one of the region of the registry")
		}
		g.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	r.glueURL = server.URL
	for id, s := range map[int]struct {
		format, text string
		kind         sr.SchemaType
	}{
		avroID:  {"AVRO", avroSchema, sr.TypeAvro},
		protoID: {"PROTOBUF", protoSchema, sr.TypeProtobuf},
		jsonID:  {"JSON", `{"type":"object"}`, sr.TypeJSON},
		keyID:   {"AVRO", `"string"`, sr.TypeAvro},
	} {
		r.confluent.SeedSchema(fmt.Sprint("subject-", id), 1, id, sr.Schema{Schema: s.text, Type: s.kind})
		g.Seed(uuid(id), s.format, s.text)
	}
	return r
}

func uuid(id int) string { return fmt.Sprintf("00000000-0000-0000-0000-%012x", id) }

// id is a schema's ID as events have it.
func id(registry string, schema int) string {
	if registry == glue {
		return uuid(schema)
	}
	return fmt.Sprint(schema)
}

// payment is a payment of 12.50 as producers write it, with an ID of a number of letters.
func payment(schema int, id string) []byte {
	switch schema {
	case avroID:
		return append(append([]byte{byte(2 * len(id))}, id...), 0xc4, 0x13) //nolint:mnd // Avro's zigzag
	case protoID:
		// behind the index of the first message type
		return append(append([]byte{0, 0x0a, byte(len(id))}, id...), 0x10, 0xe2, 0x09)
	}
	return fmt.Appendf(nil, `{"paymentId":%q,"amount":1250}`, id)
}

// framed is data behind the header of its registry's serializers.
func framed(registry string, schema int, data []byte) []byte {
	if registry == glue {
		header := append([]byte{3, 0}, make([]byte, 15)...)
		return append(append(header, byte(schema)), data...)
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(schema)), data...)
}

// deflated is a value as Glue's serializers compress it.
func deflated(t *testing.T, value []byte) []byte {
	t.Helper()
	out := bytes.NewBuffer(append([]byte{3, 5}, value[2:18]...))
	w := zlib.NewWriter(out)
	_, _ = w.Write(value[18:]) // to memory
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// function is a function behind the layer, whose runtime is in this process.
type function struct {
	*testing.T
	env   map[string]string
	layer *lambda.Function
	sqs   *sqs.Client
	queue string
	calls [][]record // of each call of the function
}

// record is a record as a function reads it.
type record struct {
	Offset              int64
	Key, Value          []byte
	ValueSchemaMetadata *metadata
	KeySchemaMetadata   *metadata
	Headers             []map[string][]int
}

type metadata struct{ DataFormat, SchemaID string }

func newFunction(t *testing.T, r *registries, registry string, env map[string]string) *function {
	t.Helper()
	f := &function{T: t}
	queues := testkit.Serve(t, sqsfake.New, sqsfake.Config{})
	f.sqs = sqs.NewFromConfig(awstest.Config(t, queues.URL()))
	queue, err := f.sqs.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("letters")})
	if err != nil {
		t.Fatal(err)
	}
	f.queue = *queue.QueueUrl
	if registry == confluent {
		registry = r.confluent.URL()
	}
	for name, value := range map[string]string{"AWS_ENDPOINT_URL_GLUE": r.glueURL,
		"AWS_ENDPOINT_URL_SQS": queues.URL(), "AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "id",
		"AWS_SECRET_ACCESS_KEY": "secret"} {
		t.Setenv(name, value)
	}
	f.env = map[string]string{
		"IDEMSK_CALL_RECORDS":      "100", // what can't be decoded fails no other record of its call
		"AWS_LAMBDA_FUNCTION_NAME": "ledger", "IDEMSK_STORE": "memory", "IDEMSK_FAILURES": "partial",
		"IDEMSK_KEY": "json:$.paymentId", "IDEMSK_FINGERPRINT": "json:$.amount", "IDEMSK_RETRY_DELAY": "0s",
		"IDEMSK_DEAD_LETTER_QUEUE_URL": f.queue, "IDEMSK_SCHEMA_REGISTRY": registry,
		"IDEMSK_MAX_ATTEMPTS": "2",
	}
	for name, value := range env {
		f.env[name] = value
	}
	vars := app.NewVars(func(name string) (string, bool) { s, ok := f.env[name]; return s, ok })
	if f.layer, err = lambda.New(t.Context(), layercall.Build, vars, t.Output(), t.Output(),
		schemaenv.Schemas()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.layer.Close)
	return f
}

// eventOf returns the event of values of one partition, with a key.
func eventOf(key []byte, values ...[]byte) []byte {
	messages := make([]mskevent.Message, len(values))
	for i, v := range values {
		messages[i] = mskevent.Message{Topic: "payments", Offset: int64(i), Timestamp: 1_700_000_000_000,
			TimestampType: "CREATE_TIME", Key: key, Value: v}
	}
	return mskevent.MSK("arn:aws:kafka:us-east-1:000000000000:cluster/c/1", "b-1:9092").Messages(messages...)
}

// deliver delivers an event, and returns how many records are reported.
func (f *function) deliver(event []byte) int {
	f.Helper()
	ctx, err := layercall.NewContext(f.Context(), event, f.call)
	if err != nil {
		f.Fatal(err)
	}
	out, err := f.layer.Invoke(ctx, event)
	if err != nil {
		f.Fatal(err)
	}
	var answer msk.Response
	if err := json.Unmarshal(out, &answer); err != nil {
		f.Fatal(err)
	}
	return len(answer.BatchItemFailures)
}

// call is the layercall.Runtime.
func (f *function) call(_ context.Context, event []byte) ([]byte, error) {
	var decoded struct{ Records map[string][]record }
	if err := json.Unmarshal(event, &decoded); err != nil {
		f.Error(err)
	}
	f.calls = append(f.calls, decoded.Records["payments-0"])
	return []byte(`"done"`), nil
}

// got returns the values of all records that the function got.
func (f *function) got() (values []string) {
	for _, rs := range f.calls {
		for _, r := range rs {
			values = append(values, string(r.Value))
		}
	}
	return values
}

// letters returns the dead letters, and removes none.
func (f *function) letters() (bodies []string) {
	f.Helper()
	out, err := f.sqs.ReceiveMessage(f.Context(), &sqs.ReceiveMessageInput{QueueUrl: &f.queue,
		MaxNumberOfMessages: 10, VisibilityTimeout: 0})
	if err != nil {
		f.Fatal(err)
	}
	for _, m := range out.Messages {
		bodies = append(bodies, *m.Body)
	}
	return bodies
}

// wantEntries checks the values that the function got.
func (f *function) wantValues(want ...string) {
	f.Helper()
	if got := f.got(); strings.Join(got, " ") != strings.Join(want, " ") {
		f.Errorf("the function got %q; want %q", got, want)
	}
}

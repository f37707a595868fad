package local_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/glue"
	"github.com/aws/aws-sdk-go-v2/service/glue/types"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/fake/gluefake"
	"github.com/idemsk/idemsk/internal/subprocess/serverproc"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
)

// Only the example gets the variables of the example, also with generated payments. In another function,
// idemsk would log them as misspelt.
func TestVariablesOfTheExample(t *testing.T) {
	t.Parallel()
	for _, example := range []bool{false, true} {
		o, s := options(t, "environment")
		o.Produce, o.Example = 1, example
		mustRun(t, o)
		for _, name := range []string{"IDEMSK_SIMULATE=", "IDEMSK_LEDGER_TABLE="} {
			if strings.Contains(s.String(), name) != example {
				t.Errorf("example %t: %s in\n%s", example, name, s)
			}
		}
	}
}

// The example is recognised by the package that it was built from, wherever it is.
func TestIsExample(t *testing.T) {
	t.Parallel()
	program, err := consumer()
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]bool{
		"'" + handler + "'": true, "'" + program + "' --flag": true, "'" + other + "'": false,
		"sh -c '" + handler + "'": false, "./nowhere": false, "'": false,
	} {
		if o := (&local.Options{Function: command}); o.IsExample() != want {
			t.Errorf("%s: %t; want %t", command, !want, want)
		}
	}
}

// Records are validated by a schema registry in this process or elsewhere.
func TestSchemaRegistry(t *testing.T) {
	t.Parallel()
	registry := srfake.New()
	defer registry.Close()
	registry.SeedSchema("payments-value", 1, 7, sr.Schema{Schema: `{"type":"object"}`, Type: sr.TypeJSON})
	for address, want := range map[string]struct {
		done    int
		givenUp string
	}{
		registry.URL():     {1, "map[DESERIALIZATION_ERROR:2]"},
		local.RegistryFake: {0, "map[DESERIALIZATION_ERROR:1 SCHEMA_NOT_FOUND:2]"},
	} {
		o, s := options(t, "noop")
		o.Brokers, o.SchemaRegistry = newCluster(t, "not framed", "\x00\x00\x00\x00\x07{}",
			"\x00\x00\x00\x00\x07[]").ListenAddrs(), address
		o.ESM.SchemaRegistry = &esm.SchemaRegistry{EventRecordFormat: esm.FormatJSON,
			Attributes: []string{esm.AttributeValue}}
		report := mustRun(t, o)
		if report.Done != want.done || fmt.Sprint(report.GivenUp) != want.givenUp || report.Lag() != 0 {
			t.Errorf("%s: %+v", address, report)
		}
		if own := strings.Contains(s.String(),
			"Schema registry in this process at http://127.0.0.1:"); own != (address == local.RegistryFake) {
			t.Errorf("%s: %s", address, s)
		}
	}
	for _, address := range []string{"registry", "arn:aws:glue:us-east-1:000000000000:schema/a/b"} {
		o, _ := options(t, "noop")
		o.SchemaRegistry, o.ESM.SchemaRegistry = address,
			&esm.SchemaRegistry{EventRecordFormat: esm.FormatJSON, Attributes: []string{esm.AttributeValue}}
		if _, err := run(t, o); !errors.Is(err, local.ErrOptions) ||
			!strings.Contains(err.Error(), "--schema-registry") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// User and password of a registry are part of its URL, and in no output.
func TestSchemaRegistryWithAPassword(t *testing.T) {
	t.Parallel()
	registry := srfake.New()
	defer registry.Close()
	registry.SeedSchema("payments-value", 1, 7, sr.Schema{Schema: `{"type":"object"}`, Type: sr.TypeJSON})
	behind, err := url.Parse(registry.URL())
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(behind)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "lambda" || password != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	defer server.Close()
	o, s := options(t, "noop")
	o.Brokers = newCluster(t, "\x00\x00\x00\x00\x07{}", "\x00\x00\x00\x00\x08{}").ListenAddrs()
	o.SchemaRegistry = strings.Replace(server.URL, "http://", "http://lambda:secret@", 1)
	o.ESM.SchemaRegistry = &esm.SchemaRegistry{EventRecordFormat: esm.FormatJSON,
		Attributes: []string{esm.AttributeValue}}
	report, err := run(t, o)
	if err != nil || report.Done != 1 || fmt.Sprint(report.GivenUp) != "map[SCHEMA_NOT_FOUND:1]" {
		t.Errorf("%+v, %v", report, err)
	}
	if strings.Contains(s.String()+report.Text(), "secret") {
		t.Errorf("the password is in %s%s", s, report.Text())
	}
}

// A producer registers a schema in the Glue of this process, or at an endpoint, and the function gets what it
// writes without the framing.
func TestGlueSchemaRegistry(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(gluefake.New())
	defer elsewhere.Close()
	for name, url := range map[string]string{local.RegistryFakeGlue: "",
		"arn:aws:glue:eu-west-1:000000000000:registry/default-registry": elsewhere.URL} {
		o, s := options(t, "noop")
		cluster := newCluster(t, "not framed", "\x03\x00"+strings.Repeat("\x07", 16)+"{}")
		o.Brokers, o.SchemaRegistry = cluster.ListenAddrs(), name
		o.ESM.SchemaRegistry = &esm.SchemaRegistry{EventRecordFormat: esm.FormatJSON,
			Attributes: []string{esm.AttributeValue}}
		produced := false
		produce := func(url string) { produced = true; writeByGlue(t, cluster, url) }
		if url == "" {
			say := o.Say
			o.Say = func(line string) {
				if found := regexp.MustCompile(
					`AWS_ENDPOINT_URL_GLUE=(http://127\.0\.0\.1:\d+), region us-east-1\.`).FindStringSubmatch(
					line); found != nil {
					produce(found[1])
				}
				say(line)
			}
		} else {
			o.AWS = func(context.Context) (aws.Config, error) { return awstest.Config(t, url), nil }
			produce(url)
		}
		report, err := run(t, o)
		if err != nil || !produced {
			t.Fatalf("%s: %v; produced: %v; %s", name, err, produced, s)
		}
		if report.Done != 2 || fmt.Sprint(
			report.GivenUp) != "map[DESERIALIZATION_ERROR:2 SCHEMA_NOT_FOUND:1]" || report.Lag() != 0 {
			t.Errorf("%s: %+v", name, report)
		}
	}
}

// writeByGlue registers an Avro schema, a string, and writes with it: a value, a compressed one, and one that
// is cut off.
func writeByGlue(t *testing.T, cluster *kfake.Cluster, url string) {
	t.Helper()
	out, err := glue.NewFromConfig(awstest.Config(t, url)).CreateSchema(t.Context(), &glue.CreateSchemaInput{
		SchemaName: aws.String("payments"), DataFormat: types.DataFormatAvro,
		SchemaDefinition: aws.String(`"string"`),
	})
	if err != nil {
		t.Fatal(err)
	}
	id, err := hex.DecodeString(strings.ReplaceAll(*out.SchemaVersionId, "-", ""))
	if err != nil {
		t.Fatal(err)
	}
	var compressed bytes.Buffer
	w := zlib.NewWriter(&compressed)
	_, _ = w.Write([]byte("\x06p-2")) // to memory
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...),
		kgo.DefaultProduceTopic("payments"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, value := range []string{"\x03\x00" + string(id) + "\x06p-1",
		"\x03\x05" + string(id) + compressed.String(), "\x03\x00" + string(id) + "\x06p"} {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// Servers in this process listen on the configured ports, or return an error if a port is taken.
func TestPorts(t *testing.T) {
	t.Parallel()
	o, s := options(t, "noop")
	o.Ports = local.Ports{Broker: freePort(t), DynamoDB: freePort(t), SQS: freePort(t)}
	o.Produce, o.Tables = 10, []string{"accounts=account"}
	tables := ""
	o.Show = func(*local.View) func() { tables = tablesAt(t, o.Ports.DynamoDB); return func() {} }
	mustRun(t, o)
	if tables != "accounts idemsk idemsk-audit idemsk-ledger" {
		t.Errorf("the tables are %s", tables)
	}
	for _, want := range []string{
		fmt.Sprintf("Broker in this process at 127.0.0.1:%d, topic payments", o.Ports.Broker),
		fmt.Sprintf("DynamoDB in this process at http://127.0.0.1:%d, tables idemsk and accounts: idemsk list --endpoint-url http://127.0.0.1:%[1]d\n", o.Ports.DynamoDB),
		fmt.Sprintf("SQS in this process at http://127.0.0.1:%d, dead letters: idemsk redrive --queue-url http://127.0.0.1:%[1]d/000000000000/idemsk-dead-letters --dry-run\n", o.Ports.SQS),
		"Produced 10 records to payments by seed",
	} {
		if !strings.Contains(s.String(), want) {
			t.Errorf("the output does not contain %s:\n%s", want, s)
		}
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	for says, ports := range map[string]local.Ports{"(--broker-port)": {Broker: port},
		"(--dynamodb-port)": {DynamoDB: port}, "(--sqs-port)": {SQS: port}} {
		o.Ports = ports
		if _, err := run(t, o); err == nil || !strings.Contains(err.Error(), says) ||
			!strings.Contains(err.Error(), "address already in use") {
			t.Errorf("%v; want an error that says %s", err, says)
		}
	}
}

// Who runs another function than the example forgets its table first.
func TestMissingTableNamesTheFlagThatCreatesIt(t *testing.T) {
	t.Parallel()
	o, _ := options(t, "noop")
	o.Function, o.Produce, o.ESM.MaximumRetryAttempts = "'"+handler+"'", 1, 0
	o.Env = append(o.Env, "IDEMSK_LEDGER_TABLE=accounts")
	const want = "Table: accounts not found: idemsk local creates it with --create-table NAME=KEY"
	if report := mustRun(t, o); !strings.Contains(report.LastError, want) {
		t.Errorf("the last error is %q; want %q in it", report.LastError, want)
	}
}

// tablesAt lists the tables of a DynamoDB on this machine.
func tablesAt(t *testing.T, port int) string {
	t.Helper()
	client := dynamodb.NewFromConfig(awstest.Config(t, fmt.Sprintf("http://127.0.0.1:%d", port)))
	out, err := client.ListTables(t.Context(), &dynamodb.ListTablesInput{})
	if err != nil {
		t.Error(err)
		return ""
	}
	return strings.Join(out.TableNames, " ")
}

func freePort(t *testing.T) int {
	t.Helper()
	port, err := serverproc.FreePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// If the outbox's table does not exist, the run does not start, because each record would fail.
func TestOutboxWithoutItsTable(t *testing.T) {
	t.Parallel()
	db := testkit.Serve(t, dynamofake.New, dynamofake.Config{})
	o, _ := options(t, "noop")
	o.Store, o.Env = db.URL(), append(o.Env, "IDEMSK_OUTBOX=on")
	if _, err := run(t, o); err == nil ||
		!strings.Contains(err.Error(), "idemsk relay --migrate --outbox-table idemsk-outbox --endpoint-url "+
			db.URL()) {
		t.Errorf("%v; want an error with the command that creates the table", err)
	}
	if err := db.CreateTable(dynamofake.Table{Name: "events", HashKey: "aggregate"}); err != nil {
		t.Fatal(err)
	}
	o.Env = append(o.Env, "IDEMSK_OUTBOX_TABLE=events")
	if _, err := run(t, o); err != nil {
		t.Error(err)
	}
}

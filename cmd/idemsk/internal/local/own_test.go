package local_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/internal/dynamofake"
	"github.com/idemsk/idemsk/internal/testkit"
	"github.com/idemsk/idemsk/internal/testkit/awstest"
)

// Only the example gets the variables of the example. In another function, idemsk would log them as misspelt.
func TestVariablesOfTheExample(t *testing.T) {
	t.Parallel()
	for _, example := range []bool{false, true} {
		o, s := options(t, "environment")
		o.Brokers, o.Example = newCluster(t, "a").ListenAddrs(), example
		if _, err := run(t, o); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"IDEMSK_SIMULATE=", "IDEMSK_LEDGER_TABLE="} {
			if strings.Contains(s.String(), name) != example {
				t.Errorf("example %t: %s in\n%s", example, name, s)
			}
		}
	}
}

// Records are validated by a schema registry in this process or elsewhere.
func TestSchemaRegistry(t *testing.T) {
	t.Parallel()
	registry := srfake.New()
	defer registry.Close()
	registry.SeedSchema("payments-value", 1, 7, sr.Schema{Schema: "{}", Type: sr.TypeJSON})
	for address, want := range map[string]struct {
		done    int
		givenUp string
	}{
		registry.URL():     {1, "map[DESERIALIZATION_ERROR:1]"},
		local.RegistryFake: {0, "map[DESERIALIZATION_ERROR:1 SCHEMA_NOT_FOUND:1]"},
	} {
		o, s := options(t, "noop")
		o.Brokers, o.SchemaRegistry = newCluster(t, "not framed", "\x00\x00\x00\x00\x07{}").ListenAddrs(), address
		o.ESM.SchemaRegistry = &esm.SchemaRegistry{EventRecordFormat: esm.FormatJSON, Attributes: []string{esm.AttributeValue}}
		report, err := run(t, o)
		if err != nil {
			t.Fatal(err)
		}
		if report.Done != want.done || fmt.Sprint(report.GivenUp) != want.givenUp || report.Lag() != 0 {
			t.Errorf("%s: %+v", address, report)
		}
		if own := strings.Contains(s.String(), "Schema registry in this process at http://127.0.0.1:"); own != (address == local.RegistryFake) {
			t.Errorf("%s: %s", address, s)
		}
	}
	o, _ := options(t, "noop")
	o.SchemaRegistry, o.ESM.SchemaRegistry = "registry", &esm.SchemaRegistry{EventRecordFormat: esm.FormatJSON, Attributes: []string{esm.AttributeValue}}
	if _, err := run(t, o); !errors.Is(err, local.ErrOptions) || !strings.Contains(err.Error(), "--schema-registry") {
		t.Error(err)
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
	if _, err := run(t, o); err != nil {
		t.Fatal(err)
	}
	if tables != "accounts idemsk idemsk-audit idemsk-ledger" {
		t.Errorf("the tables are %s", tables)
	}
	for _, want := range []string{
		fmt.Sprintf("Broker in this process at 127.0.0.1:%d, topic payments", o.Ports.Broker),
		fmt.Sprintf("DynamoDB in this process at http://127.0.0.1:%d, tables idemsk and idemsk-ledger: idemsk list --endpoint-url http://127.0.0.1:%[1]d\n", o.Ports.DynamoDB),
		fmt.Sprintf("SQS in this process at http://127.0.0.1:%d, dead letters in http://127.0.0.1:%[1]d/000000000000/idemsk-dead-letters.\n", o.Ports.SQS),
		"the failures with \"simulated failure\" are generated",
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
	for says, ports := range map[string]local.Ports{"(--broker-port)": {Broker: port}, "(--dynamodb-port)": {DynamoDB: port}, "(--sqs-port)": {SQS: port}} {
		o.Ports = ports
		if _, err := run(t, o); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "address already in use") {
			t.Errorf("%v; want an error that says %s", err, says)
		}
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
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// If the outbox's table does not exist, the run does not start, because each record would fail.
func TestOutboxWithoutItsTable(t *testing.T) {
	t.Parallel()
	db := testkit.Serve(t, dynamofake.New, dynamofake.Config{})
	o, _ := options(t, "noop")
	o.Store, o.Env = db.URL(), append(o.Env, "IDEMSK_OUTBOX=on")
	if _, err := run(t, o); err == nil || !strings.Contains(err.Error(), "idemsk relay --migrate --outbox-table idemsk-outbox --endpoint-url "+db.URL()) {
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

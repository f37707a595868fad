package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/internal/test/testkit/s3test"
)

// fixture is the function, with the services that it calls and what it wrote.
type fixture struct {
	*testing.T
	db      *dynamodb.Client
	s3      *s3test.Server
	aws     map[string]string // the variables of the SDK
	vars    map[string]string
	metrics map[string]any // of the last invocation
	logs    bytes.Buffer
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, s3: &s3test.Server{}, vars: map[string]string{
		"AWS_LAMBDA_FUNCTION_NAME": "maintenance", "IDEMSK_NAMESPACE": "ledger",
		"IDEMSK_EXPORT": "s3://exports/bookings/", "IDEMSK_EXPORT_FIELD": "id",
		"IDEMSK_EXPORT_TOPIC": "payments",
	}}
	fake := testkit.Serve(t, dynamofake.New, dynamofake.Config{})
	f.db = dynamodb.NewFromConfig(awstest.Config(t, fake.URL()))
	if err := dynamostore.CreateTable(t.Context(), f.db, dynamostore.DefaultTable); err != nil {
		t.Fatal(err)
	}
	f.aws = map[string]string{
		"AWS_ENDPOINT_URL_DYNAMODB": fake.URL(), "AWS_ENDPOINT_URL_S3": f.s3.Start(t),
		"AWS_REGION":        "us-east-1",
		"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_CONFIG_FILE": "/dev/null",
		"AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
	}
	for name, value := range f.aws {
		t.Setenv(name, value)
	}
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	return f
}

// add claims a key some time ago, and settles it.
func (f *fixture) add(key string, age time.Duration, op store.SettleOp) {
	f.Helper()
	st, err := dynamostore.New(f.db, dynamostore.Config{Clock: func() time.Time {
		return time.Now().Add(-age)
	}})
	if err != nil {
		f.Fatal(err)
	}
	entry := st.Claim(f.Context(), []store.ClaimRequest{{Key: key, Owner: "o", Lease: time.Minute,
		Retention: 24 * time.Hour}})[0].Entry
	if op == 0 {
		return
	}
	set := store.Settlement{Op: op, Key: key, Token: entry.Token, Owner: "o", Retention: 24 * time.Hour,
		Failure: &store.Failure{Code: "error"}, Result: []byte("secret")}
	if errs := st.Settle(f.Context(), []store.Settlement{set}); errs != nil {
		f.Fatal(errs)
	}
}

// invoke invokes the function as Lambda does.
func (f *fixture) invoke(ctx context.Context, event string) error {
	f.Helper()
	lookup := func(name string) (string, bool) {
		value, ok := f.vars[name]
		return value, ok
	}
	var stdout bytes.Buffer
	fn, err := newFunction(f.Context(), app.NewVars(lookup), &stdout, &f.logs)
	if err != nil {
		return err
	}
	defer fn.base.Close()
	_, err = lambda.NewHandler(fn.handle).Invoke(ctx, []byte(event))
	f.metrics = nil
	if stdout.Len() > 0 {
		if wrong := json.Unmarshal(stdout.Bytes(), &f.metrics); wrong != nil {
			f.Fatalf("the metrics %q: %v", stdout.String(), wrong)
		}
	}
	return err
}

func (f *fixture) metric(name string, want float64) {
	f.Helper()
	if got := f.metrics[name]; got != want {
		f.Errorf("%s is %v; want %v", name, got, want)
	}
}

const reconciles = `{"task":"reconcile"}`

func TestReconcile(t *testing.T) {
	f := newFixture(t)
	f.add("ledger#payments#done", 2*time.Hour, store.OpComplete)
	f.add("ledger#payments#unbooked", 2*time.Hour, store.OpComplete)
	f.add("ledger#payments#young", time.Minute, store.OpComplete) // completed while the export was written
	f.add("ledger#refunds#done", 2*time.Hour, store.OpComplete)
	f.add("ledger#payments#dead", 3*time.Hour, 0)
	f.add("ledger#payments#failed", 2*time.Hour, store.OpFail)
	f.s3.Put("/exports/bookings/1.csv", []byte("id\ndone\nghost\n"))
	if err := f.invoke(t.Context(), reconciles); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{
		"KeysRead": 6, "KeysOverdue": 1, "KeysFailed": 1, "ExportRows": 2, "ExportMatched": 1,
		"ExportDifferences": 2, "ReconcileUnfinished": 0,
	} {
		f.metric(name, want)
	}
	if age := f.metrics["KeysInProgressAge"].(float64); age < 3*3600e3 || age > 4*3600e3 {
		t.Errorf("the oldest key is in progress for %v ms; want three hours", age)
	}
	if f.metrics["FunctionName"] != "maintenance" {
		t.Errorf("the metrics are those of %v", f.metrics["FunctionName"])
	}
	for _, want := range []string{
		`"msg":"a key is overdue: it is STARTED, its lease is over, and no delivery has claimed it","key":"ledger#payments#dead","status":"STARTED"`,
		`"msg":"a key failed","key":"ledger#payments#failed"`,
		`"msg":"a key is completed and not in the export","key":"ledger#payments#unbooked"`,
		`"msg":"a row of the export has no key in the store","key":"ghost","line":3`,
		`"export":"s3://exports/bookings/1.csv"`,
	} {
		if !strings.Contains(f.logs.String(), want) {
			t.Errorf("the log does not have %s:\n%s", want, f.logs.String())
		}
	}
}

func TestReconcileWithoutAnExport(t *testing.T) {
	f := newFixture(t)
	delete(f.vars, "IDEMSK_EXPORT")
	f.add("ledger#payments#done", 2*time.Hour, store.OpComplete)
	if err := f.invoke(t.Context(), reconciles); err != nil {
		t.Fatal(err)
	}
	f.metric("KeysRead", 1)
	if _, ok := f.metrics["ExportDifferences"]; ok {
		t.Error("there are differences from no export")
	}
}

// An export that can't be read fails the invocation, which raises an alarm. The keys are reported all the
// same.
func TestExportThatCanNotBeRead(t *testing.T) {
	for name, c := range map[string]struct{ fault, export, want string }{
		"broken line":   {"", "id\ndone\n\"gho", "s3://exports/bookings/1.csv: parse error on line 3"},
		"empty":         {"", "", "s3://exports/bookings/1.csv: it has no header line"},
		"no permission": {"AccessDenied", "", "the role needs s3:ListBucket on the bucket"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.add("ledger#payments#dead", 2*time.Hour, 0)
			f.s3.Fault = c.fault
			f.s3.Put("/exports/bookings/1.csv", []byte(c.export))
			err := f.invoke(t.Context(), reconciles)
			if err == nil || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(f.logs.String(), "the maintenance failed") {
				t.Errorf("%v; want %q, and a line of the log:\n%s", err, c.want, f.logs.String())
			}
			f.metric("KeysOverdue", 1)
		})
	}
}

func TestOldExport(t *testing.T) {
	f := newFixture(t)
	f.s3.PutAt("/exports/bookings/1.csv", []byte("id\n"), time.Now().Add(-26*time.Hour))
	if err := f.invoke(t.Context(), reconciles); err == nil ||
		!strings.Contains(err.Error(), "is there no newer one?") {
		t.Errorf("%v; want that the export is old", err)
	}
	f.metric("KeysRead", 0)
}

func TestInvocationWhoseTimeIsOver(t *testing.T) {
	f := newFixture(t)
	f.add("ledger#payments#dead", 2*time.Hour, 0)
	ctx, cancel := context.WithTimeout(t.Context(), margin) // nothing is left
	defer cancel()
	if err := f.invoke(ctx, reconciles); err == nil || !strings.Contains(err.Error(), errUnfinished.Error()) {
		t.Errorf("%v; want %v", err, errUnfinished)
	}
	f.metric("ReconcileUnfinished", 1)
}

func TestInvalidEvents(t *testing.T) {
	for event, want := range map[string]string{
		`{"task":"prune"}`: "IDEMSK_STORE is dynamodb, which deletes keys itself",
		`{}`:               `the event has the task ""`,
		`{"task":"clean"}`: `the event has the task "clean": want`,
	} {
		f := newFixture(t)
		if err := f.invoke(t.Context(), event); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", event, err, want)
		}
	}
}

// All invalid variables are reported together, before an invocation.
func TestInvalidVariables(t *testing.T) {
	for _, c := range []struct {
		given map[string]string
		want  []string
	}{
		{map[string]string{"IDEMSK_EXPORT": "exports/bookings", "IDEMSK_LEASE": "never"},
			[]string{`IDEMSK_EXPORT is "exports/bookings": want s3://`, `IDEMSK_LEASE is "never"`}},
		{map[string]string{"IDEMSK_EXPORT_TOPIC": ""},
			[]string{`IDEMSK_EXPORT_TOPIC is "": want the topic of the export's keys`}},
		{map[string]string{"IDEMSK_KEY_SCOPE": "namespace"},
			[]string{`IDEMSK_EXPORT_TOPIC is "payments": want none with`}},
		{map[string]string{"IDEMSK_EXPORT_COVERS": "1h"},
			[]string{`IDEMSK_EXPORT_COVERS is "1h": want a duration like 30s or 168h, from 1h1m0s`}},
	} {
		f := newFixture(t)
		for name, value := range c.given {
			f.vars[name] = value
		}
		err := f.invoke(t.Context(), reconciles)
		lines := strings.Split(fmt.Sprint(err), "\n")
		if err == nil || len(lines) != len(c.want) || errors.Is(err, errUnfinished) {
			t.Errorf("%v: %v; want %d errors", c.given, err, len(c.want))
		}
		for _, want := range c.want {
			if !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%v: %v; want %s in it", c.given, err, want)
			}
		}
	}
}

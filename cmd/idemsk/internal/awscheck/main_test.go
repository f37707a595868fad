package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/payments"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/testenv"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/verify"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/mskevent"
)

// fakeCDK returns a program in the place of scripts/cdk.sh, which writes its first argument to a file and
// then runs the script.
func fakeCDK(t *testing.T, script string) (program, calls string) {
	t.Helper()
	dir := t.TempDir()
	program, calls = filepath.Join(dir, "cdk"), filepath.Join(dir, "calls")
	text := "#!/bin/sh\necho \"$1\" >>" + calls + "\n" + script + "\n"
	if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return program, calls
}

func args(t *testing.T, cdk string, more ...string) []string {
	t.Helper()
	return append([]string{"--name", "n", "--cdk", cdk, "--handler", "h", "--producer", "p", "--work",
		t.TempDir(), "--region", "eu-central-1"}, more...)
}

// Without a confirmation nothing is created. The plan comes first, with its price.
func TestNothingIsCreatedWithoutConfirmation(t *testing.T) {
	for _, answer := range []string{"", "\n", "n\n", "no\n"} {
		cdk, calls := fakeCDK(t, "")
		var out, said strings.Builder
		err := run(t.Context(), args(t, cdk), command.Streams{In: strings.NewReader(answer), Out: &out,
			Err: &said})
		if err == nil || !strings.Contains(err.Error(), "nothing was created") {
			t.Errorf("answer %q: %v", answer, err)
		}
		if _, err := os.Stat(calls); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("answer %q: the CDK was called", answer)
		}
		for _, want := range []string{"eu-central-1", "MSK Serverless", "10,000 records", "At most $",
			pricesOf, usualTime} {
			if !strings.Contains(said.String(), want) {
				t.Errorf("the plan does not name %q:\n%s", want, said.String())
			}
		}
	}
}

func TestPriceHasABound(t *testing.T) {
	t.Parallel()
	p := plan{payments: payments.Config{Records: 10_000}}
	if most := p.most(); most < 3*0.75 || most > 10 {
		t.Errorf("at most $%.2f; want the cluster's three hours, and less than $10", most)
	}
	p.onDemand = true
	if !strings.Contains(p.text(), "VPC endpoints") || strings.Contains(p.text(), "event pollers:") {
		t.Errorf("on demand:\n%s", p.text())
	}
}

// What was created is destroyed after a failure, and the report says why the check failed.
func TestEverythingIsDestroyedAfterAFailure(t *testing.T) {
	cdk, calls := fakeCDK(t, `[ "$1" = destroy ]`)
	var out, said strings.Builder
	err := run(t.Context(), args(t, cdk, "--yes"), command.Streams{Out: &out, Err: &said})
	if !errors.Is(err, command.ErrReported) {
		t.Fatal(err)
	}
	wantCalls(t, calls, "deploy destroy")
	for _, want := range []string{"aws-check: FAILED", "| deploy the cluster and the producer |",
		"| destroy everything |", "the CDK's deploy: exit status 1"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report does not have %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "LEFT") {
		t.Errorf("something is left:\n%s", out.String())
	}
}

// A signal ends the step that runs, but not the destruction.
func TestEverythingIsDestroyedAfterASignal(t *testing.T) {
	cdk, calls := fakeCDK(t, `[ "$1" = destroy ] || { echo started; exec sleep 60; }`)
	ctx, cancel := context.WithCancelCause(t.Context())
	said := writer(func(text string) {
		if strings.Contains(text, "started") {
			cancel(errors.New("interrupted"))
		}
	})
	begun := time.Now()
	var out strings.Builder
	err := run(ctx, args(t, cdk, "--yes"), command.Streams{Out: &out, Err: said})
	if !errors.Is(err, command.ErrReported) || time.Since(begun) > patience {
		t.Errorf("%v after %s", err, time.Since(begun))
	}
	wantCalls(t, calls, "deploy destroy")
	if !strings.Contains(out.String(), "interrupted") {
		t.Errorf("the report does not name the signal:\n%s", out.String())
	}
}

// If the destruction fails, the output names what is left, and the commands that remove it.
func TestWhatIsLeftIsNamed(t *testing.T) {
	cdk, _ := fakeCDK(t, "exit 1")
	var out, said strings.Builder
	err := run(t.Context(), args(t, cdk, "--yes"), command.Streams{Out: &out, Err: &said})
	if !errors.Is(err, command.ErrReported) {
		t.Fatal(err)
	}
	for _, want := range []string{"LEFT in your account", "an hour",
		"delete-stack --region eu-central-1 --stack-name n-consumer",
		"delete-stack --region eu-central-1 --stack-name n-cluster"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output does not have %q:\n%s", want, out.String())
		}
	}
}

// writer gets what is written.
type writer func(text string)

// Write implements io.Writer.
func (w writer) Write(b []byte) (int, error) { w(string(b)); return len(b), nil }

func wantCalls(t *testing.T, file, want string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(string(text)), " "); got != want {
		t.Errorf("the CDK was called with %q; want %q", got, want)
	}
}

func TestInvalidFlagsAreRefused(t *testing.T) {
	t.Parallel()
	for _, more := range [][]string{{"--records", "-1"}, {"--records", "1000000"}, {"more"}, {"--name", ""}} {
		var usage *command.UsageError
		err := run(t.Context(), args(t, "cdk", more...), command.Streams{Err: new(strings.Builder)})
		if !errors.As(err, &usage) {
			t.Errorf("%v: %v; want a usage error", more, err)
		}
	}
}

// A report can be pasted into an issue: it has nothing that identifies the account.
func TestReportHasNoIdentities(t *testing.T) {
	t.Parallel()
	secrets := []string{"arn:aws:lambda:eu-central-1:111122223333:function:f", "111122223333",
		"AKIAIOSFODNN7EXAMPLE", "https://sqs.eu-central-1.amazonaws.com/111122223333/q",
		"vpc-0123456789abcdef0", "subnet-0123456789abcdef0", "sg-01234567",
		"boot-abc123.c3.kafka-serverless.eu-central-1.amazonaws.com:9098"}
	r := report{result: &verify.Result{}, version: "v1"}
	r.take("deploy", func() error { return errors.New("refused: " + strings.Join(secrets, " ")) })
	text := r.text()
	for _, secret := range secrets {
		if strings.Contains(text, secret) {
			t.Errorf("the report has %s:\n%s", secret, text)
		}
	}
}

// The comparison finds what differs: each case spoils a ledger that is exact.
func TestComparisonFindsDifferences(t *testing.T) {
	t.Parallel()
	c := &check{payments: payments.Config{Records: 300, Seed: 1, Copies: copiesShare, FreezesPerMille: 20}}
	want, frozen, err := c.expected()
	if err != nil || len(frozen) == 0 || len(frozen) > 20 {
		t.Fatalf("%d payments freeze, %v", len(frozen), err)
	}
	statuses := make(map[string]store.Status)
	for _, record := range want.Records() {
		statuses[record.Key] = store.StatusCompleted
	}
	if n := unsettled(want, statuses); n != 0 {
		t.Errorf("%d keys are not settled; want none", n)
	}
	var one string
	for one = range statuses {
		break
	}
	statuses[one] = store.StatusStarted
	if n := unsettled(want, statuses); n != 1 {
		t.Errorf("%d keys are not settled; want 1", n)
	}
	state := &testenv.State{Balances: want.Balances(), Statuses: statuses}
	if r := verify.Run(want, state, nil, nil, 0); r.OK() {
		t.Error("a key that is STARTED is accepted")
	}
}

func TestFreezes(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{`{"simulate":"freeze:1"}`: true, `{"simulate":"retry:2"}`: false,
		`{}`: false, `{`: false} {
		if freezes([]byte(value)) != want {
			t.Errorf("%s: %v; want %v", value, !want, want)
		}
	}
}

// The namespace and the topic of the oracle are those of the deployed function.
func TestExpectedKeys(t *testing.T) {
	t.Parallel()
	c := &check{payments: payments.Config{Records: 1, Seed: 7}, cfg: aws.Config{}}
	want, _, err := c.expected()
	if err != nil {
		t.Fatal(err)
	}
	for m := range c.payments.Messages(topic) {
		key := group + "#" + topic + "#" + header(&m)
		if got := want.Records()[0].Key; got != key {
			t.Errorf("key %s; want %s", got, key)
		}
	}
}

func header(m *mskevent.Message) string { return string(m.Headers[0].Value) }

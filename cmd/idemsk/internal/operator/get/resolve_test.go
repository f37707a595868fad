package get_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/clitest"
	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/store"
)

// unresolved is a key whose outcome is unknown, in a store of its own.
type unresolved struct {
	t        *testing.T
	store    *dynamostore.Store
	engine   *idem.Engine
	endpoint string
	token    int64 // of the dead letter
	calls    int
}

const unresolvedKey = "ledger#payments#pay-42"

func newUnresolved(t *testing.T) *unresolved {
	endpoint, client := clitest.NewDynamoDB(t)
	u := &unresolved{t: t, endpoint: endpoint}
	var err error
	if u.store, err = dynamostore.New(client, dynamostore.Config{}); err != nil {
		t.Fatal(err)
	}
	if u.engine, err = idem.New(u.store, idem.Config{AtMostOnce: true}); err != nil {
		t.Fatal(err)
	}
	out := u.deliver(0, idem.OutcomeUnknown(errors.New("no answer of the bank")))
	if out.Kind != idem.DeadLettered {
		t.Fatalf("%v: %v", out.Kind, out.Err)
	}
	return u
}

// deliver delivers the record, with the token of a dead letter if it is redriven.
func (u *unresolved) deliver(redrive int64, err error) idem.Outcome {
	return u.engine.Do(u.t.Context(), idem.Task{
		Key: unresolvedKey, Source: "payments-0@7", RedriveToken: redrive, OutcomeUnknown: redrive != 0,
		Fingerprint: store.FingerprintOf([]byte("v")),
		Handler: idem.HandlerFunc(func(context.Context) ([]byte, error) {
			u.calls++
			return []byte("receipt"), err
		}),
		DeadLetters: idem.DeadLetterFunc(func(_ context.Context, letter idem.DeadLetter) error {
			u.token = letter.Attempt.Token
			return nil
		}),
	})
}

func (u *unresolved) resolve(args ...string) clitest.Result {
	return clitest.Run(u.t, append([]string{"resolve", "pay-42", "--namespace", "ledger", "--topic", "payments",
		"--endpoint-url", u.endpoint}, args...)...)
}

// A redrive does not handle the record before the key is resolved. Then it has the stored result, or is
// handled once more.
func TestResolve(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string]struct {
		kind   idem.Kind
		result string
		calls  int
		says   string
	}{
		"--completed --result r-4711": {idem.Replayed, "r-4711", 1, "COMPLETED"},
		"--completed":                 {idem.Replayed, "", 1, "COMPLETED"},
		"--again":                     {idem.Executed, "receipt", 2, "the key is open"},
	} {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			u := newUnresolved(t)
			if out := u.deliver(u.token, nil); out.Kind != idem.ReplayedFailed || u.calls != 1 {
				t.Fatalf("before: %v, %d calls", out.Kind, u.calls)
			}
			before, err := u.store.Get(t.Context(), unresolvedKey)
			if err != nil {
				t.Fatal(err)
			}
			r := u.resolve(append(strings.Fields(flags), "--yes")...)
			if r.Code != 0 || !strings.Contains(r.Err, want.says) || !strings.Contains(r.Out, "outcome-unknown") {
				t.Fatalf("%+v", r)
			}
			entry, err := u.store.Get(t.Context(), unresolvedKey)
			if err != nil || entry.Fingerprint != before.Fingerprint || entry.Source != before.Source ||
				entry.Expiry.Before(before.Expiry) {
				t.Errorf("%+v, %v; want what %+v had", entry, err, before)
			}
			out := u.deliver(u.token, nil)
			if out.Kind != want.kind || string(out.Result) != want.result || u.calls != want.calls {
				t.Errorf("%v, result %q, %d calls; want %+v: %v", out.Kind, out.Result, u.calls, want, out.Err)
			}
			if r := u.resolve("--again", "--yes"); r.Code != 1 || !strings.Contains(r.Err, "the key is COMPLETED") {
				t.Errorf("a second time: %+v", r)
			}
		})
	}
}

// A dead letter that is redriven when the entry of its key is gone is not handled: it comes back, and is settled
// then. After an error of the handler it needs no second resolution.
func TestResolveWithoutTheEntry(t *testing.T) {
	t.Parallel()
	u := newUnresolved(t)
	if err := u.store.Delete(t.Context(), unresolvedKey, u.token); err != nil {
		t.Fatal(err)
	}
	if out := u.deliver(u.token, nil); out.Kind != idem.DeadLettered || u.calls != 1 ||
		!strings.Contains(out.Err.Error(), "run idemsk resolve") {
		t.Fatalf("%v, %d calls: %v", out.Kind, u.calls, out.Err)
	}
	if r := u.resolve("--again", "--yes"); r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	boom := errors.New("boom")
	if out := u.deliver(u.token, idem.RetryAfter(boom, 0)); out.Kind != idem.Retry || !errors.Is(out.Err, boom) {
		t.Errorf("%v: %v", out.Kind, out.Err)
	}
	if out := u.deliver(u.token, nil); out.Kind != idem.Executed || u.calls != 3 {
		t.Errorf("%v, %d calls: %v", out.Kind, u.calls, out.Err)
	}
}

// Only a key whose outcome is unknown is changed, and only as the flags say.
func TestResolveRefuses(t *testing.T) {
	t.Parallel()
	endpoint, client := clitest.NewDynamoDB(t)
	clitest.Fill(t, client)
	for args, want := range map[string]string{
		"ledger#payments#done --again --yes":                 "the key is COMPLETED",
		"ledger#payments#flying --again --yes":               "the key is STARTED",
		"ledger#payments#absent --again --yes":               "there is no entry",
		"ledger@payments-0@6200@1767231800000 --again --yes": "its outcome is known",
		"ledger#payments#done --yes":                         "give one of --completed and --again",
		"ledger#payments#done --again --completed --yes":     "give one of --completed and --again",
		"ledger#payments#done --again --result r --yes":      "with --completed only",
		"ledger#payments#done --again":                       "give --yes",
	} {
		r := clitest.Run(t, append([]string{"resolve", "--endpoint-url", endpoint}, strings.Fields(args)...)...)
		if r.Code == 0 || !strings.Contains(r.Err, want) {
			t.Errorf("%s: %+v; want %q", args, r, want)
		}
	}
}

package dynamostore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
)

func TestNewNamesEveryInvalidField(t *testing.T) {
	_, err := dynamostore.New(nil, dynamostore.Config{Table: "a b", MaxClockSkew: -2})
	if !errors.Is(err, idem.ErrInvalidConfig) {
		t.Fatalf("%v; want ErrInvalidConfig", err)
	}
	for _, want := range []string{"client", `Table is "a b"`, "MaxClockSkew is -2ns"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q in it", err, want)
		}
	}
}

func TestTableNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"": true, "abc": true, "my.table-1_x": true, "ab": false, "tab/le": false,
		strings.Repeat("t", 255): true, strings.Repeat("t", 256): false,
		"arn:aws:dynamodb:eu-central-1:123456789012:table/idemsk": true,
		"arn:aws:sqs:eu-central-1:123456789012:idemsk":            false,
	} {
		_, err := dynamostore.New(client(newWire(t), "http://127.0.0.1:1"), dynamostore.Config{Table: name})
		if (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestErrorsNameARemedy checks the texts that an operator sees.
func TestErrorsNameARemedy(t *testing.T) {
	t.Parallel()
	fault := dynamofake.Fault{}
	srv := fakeWith(t, func(string, []byte) dynamofake.Fault { return fault })
	st, err := dynamostore.New(client(newWire(t), srv.URL()), dynamostore.Config{Table: "not-there"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name  string
		fault dynamofake.Fault
		want  []string
	}{
		{"no such table", dynamofake.Fault{}, []string{"not-there", "does not exist", "IDEMSK_TABLE"}},
		{"throttled", dynamofake.Fault{Error: dynamofake.Throttled()},
			[]string{"not-there", "throttled", "capacity"}},
		{"no permission", dynamofake.Fault{Error: &dynamofake.Error{Status: 400,
			Code: "AccessDeniedException", Message: "no"}},
			[]string{"not-there", "role needs dynamodb:PutItem"}},
		{"no credentials", dynamofake.Fault{Error: &dynamofake.Error{Status: 400,
			Code: "UnrecognizedClientException", Message: "no"}}, []string{"credentials"}},
		{"broken", dynamofake.Fault{Error: dynamofake.Internal()},
			[]string{"not-there", "InternalServerError"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fault = tc.fault
			for op, err := range everyOperation(t, st) {
				for _, want := range append(tc.want, "dynamostore: "+op) {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("%s: %v; want %q in it", op, err, want)
					}
				}
				if errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrNotFound) {
					t.Errorf("%s: %v is a proper answer", op, err)
				}
			}
		})
	}
}

func everyOperation(t *testing.T, st *dynamostore.Store) map[string]error {
	t.Helper()
	errs := map[string]error{
		"claim": st.Claim(t.Context(), []store.ClaimRequest{{Key: "k", Owner: "o", Lease: time.Minute,
			Retention: time.Hour}})[0].Err,
		"delete": st.Delete(t.Context(), "k", 1),
	}
	for _, op := range []store.SettleOp{store.OpComplete, store.OpFail, store.OpRelease, store.OpExtend} {
		errs[op.String()] = st.Settle(t.Context(),
			[]store.Settlement{{Op: op, Key: "k", Token: 1, Owner: "o", Failure: &store.Failure{}}})[0]
	}
	_, errs["get"] = st.Get(t.Context(), "k")
	for _, err := range st.List(t.Context(), store.ListQuery{Status: store.StatusFailed}) {
		errs["list"] = err
	}
	return errs
}

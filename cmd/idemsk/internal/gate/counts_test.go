package gate_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/store"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/gate"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/dynamofake"
)

// clock is a time that a test sets.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

// realStore is the real store through a gate in front of an in-process DynamoDB.
func realStore(t *testing.T, at store.Clock) (*dynamostore.Store, *gate.Gate) {
	t.Helper()
	db, err := dynamofake.New(dynamofake.Config{})
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, db, nil)
	client := dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(f.gate.URL()), HTTPClient: f.client,
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
	})
	if err := dynamostore.CreateTable(t.Context(), client, "keys"); err != nil {
		t.Fatal(err)
	}
	st, err := dynamostore.New(client, dynamostore.Config{Table: "keys", Clock: at})
	if err != nil {
		t.Fatal(err)
	}
	f.gate.EndDelivery(false)
	return st, f.gate
}

func claim(t *testing.T, st store.Store, key string) store.ClaimResult {
	t.Helper()
	res := st.Claim(t.Context(), []store.ClaimRequest{{Key: key, Owner: "me" + key, Lease: time.Second, Retention: time.Minute}})[0]
	if res.Err != nil {
		t.Fatal(res.Err)
	}
	return res
}

func settle(t *testing.T, st store.Store, op store.SettleOp, rec *store.Entry) {
	t.Helper()
	errs := st.Settle(context.Background(), []store.Settlement{{
		Op: op, Key: rec.Key, Token: rec.Token, Owner: rec.Owner, Retention: time.Minute, Lease: time.Second,
		Failure: &store.Failure{Code: store.CodePermanent, Message: "no"},
	}})
	if errs != nil {
		t.Fatal(errs)
	}
}

func TestCountsOfTheRealStore(t *testing.T) {
	t.Parallel()
	at := &clock{now: time.Unix(1_800_000_000, 0)}
	st, g := realStore(t, at.Now)
	fresh := claim(t, st, "fresh")
	settle(t, st, store.OpComplete, &fresh.Entry)
	failed := claim(t, st, "failed")
	settle(t, st, store.OpExtend, &failed.Entry)
	settle(t, st, store.OpFail, &failed.Entry)
	if d := g.EndDelivery(false); d != (gate.Delivery{Completions: 1}) {
		t.Errorf("the first delivery: %+v, want 1 completion", d)
	}
	if again := claim(t, st, "fresh"); again.State != store.ClaimCompleted {
		t.Fatalf("claimed again: %v", again.State)
	}
	if d := g.EndDelivery(false); d != (gate.Delivery{}) {
		t.Errorf("the second delivery: %+v, want no completion", d)
	}
	c := g.Counts()
	if c.FreshKeys != 1 || c.FreshRequests != 2 || c.KnownKeys != 1 || c.KnownRequests != 1 || c.Completions != 1 {
		t.Errorf("counts: %+v; want a fresh key with 2 requests and a known one with 1", c)
	}
	if c.Requests["idemsk PutItem"] != 3 || c.Requests["idemsk UpdateItem"] != 3 {
		t.Errorf("requests: %v", c.Requests)
	}
	// A key that is claimed anew when its retention is over names COMPLETED in the condition: that is no completion.
	at.now = at.now.Add(time.Hour)
	if anew := claim(t, st, "fresh"); anew.State != store.Claimed {
		t.Fatalf("claimed after its retention: %v", anew.State)
	}
	if d := g.EndDelivery(true); d.Completions != 0 {
		t.Errorf("the claim of an expired key counts as %d completions", d.Completions)
	}
	if again := g.Counts(); again.FreshKeys != 1 || again.KnownKeys != 1 {
		t.Errorf("a delivery that was cut off was counted: %+v", again)
	}
}

func TestEffectsAreCounted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), nil)
	f.mustSend(effect)
	f.mustSend(effect)
	if d := f.gate.EndDelivery(false); d.Effects != 2 {
		t.Errorf("%d effects, want 2", d.Effects)
	}
	if c := f.gate.Counts(); c.Effects != 2 || c.Requests["ledger UpdateItem"] != 2 {
		t.Errorf("counts: %+v", c)
	}
}

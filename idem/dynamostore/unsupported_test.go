package dynamostore_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/store"
)

// emulator is a transport to a DynamoDB that answers some operations in its own way.
type emulator struct {
	*wire
	lacks  string
	status int
	body   string
}

// Do implements the SDK's HTTPClient.
func (e *emulator) Do(req *http.Request) (*http.Response, error) {
	if _, op, _ := strings.Cut(req.Header.Get("X-Amz-Target"), "."); op != e.lacks {
		return e.wire.Do(req)
	}
	return &http.Response{StatusCode: e.status, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body: io.NopCloser(strings.NewReader(e.body)), Request: req, ContentLength: int64(len(e.body))}, nil
}

// answersOfEmulators are what emulators of DynamoDB answer to an operation that they do not have.
var answersOfEmulators = map[string]emulator{
	"the code of DynamoDB":        {status: 400, body: `{"__type":"com.amazon.coral.service#UnknownOperationException"}`},
	"with a message":              {status: 400, body: `{"__type":"UnknownOperationException","message":"Unsupported operation"}`},
	"a code of its own":           {status: 400, body: `{"__type":"NotImplementedException","message":"later"}`},
	"LocalStack":                  {status: 501, body: `{"__type":"InternalFailure","message":"API action not yet implemented"}`},
	"moto: the page of an error":  {status: 500, body: `<!doctype html><title>500 Internal Server Error</title>`},
	"a page that does not exist":  {status: 404, body: `<!doctype html><title>404 Not Found</title>`},
	"nothing":                     {status: 404},
	"a method that it has not":    {status: 405, body: `Method Not Allowed`},
	"not implemented":             {status: 501},
	"statements that it has not":  {status: 200, body: statementErrors("ValidationError", "Statement wasn't well formed, can't be processed")},
	"no statements that it knows": {status: 400, body: `{"__type":"ValidationException","message":"Statement wasn't well formed, got error"}`},
}

// statementErrors is an answer to a batch of two statements or of one: the store reads as many as it has sent.
func statementErrors(code, message string) string {
	one := `{"Error":{"Code":"` + code + `","Message":"` + message + `"}}`
	return `{"Responses":[` + one + `,` + one + `]}`
}

// newEmulator returns a store on an endpoint that lacks an operation.
func newEmulator(t *testing.T, e emulator, lacks string, cfg dynamostore.Config) *dynamostore.Store {
	t.Helper()
	e.wire, e.lacks = newWire(t), lacks
	url := fake(t).URL()
	return newStore(t, dynamostore.NewClient(aws.Config{
		Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""), HTTPClient: &e,
	}, func(o *dynamodb.Options) { o.BaseEndpoint = &url }), cfg)
}

func claimsOfTwo() []store.ClaimRequest {
	return []store.ClaimRequest{
		{Key: "a", Owner: "o", Lease: time.Minute, Retention: time.Hour},
		{Key: "b", Owner: "o", Lease: time.Minute, Retention: time.Hour},
	}
}

// An endpoint without PartiQL is not set up for batches. The error says what to do, and it helps.
func TestEndpointWithoutBatchesIsAConfigurationError(t *testing.T) {
	t.Parallel()
	for name, e := range answersOfEmulators {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := newEmulator(t, e, "BatchExecuteStatement", dynamostore.Config{})
			errs := map[string]error{}
			for _, res := range st.Claim(t.Context(), claimsOfTwo()) {
				errs["claim of "+res.Entry.Key] = res.Err
			}
			for i, err := range st.Settle(t.Context(), []store.Settlement{
				{Op: store.OpComplete, Key: "a", Token: 1, Owner: "o"}, {Op: store.OpComplete, Key: "b", Token: 1, Owner: "o"},
			}) {
				errs["settlement "+string(rune('a'+i))] = err
			}
			if !strings.Contains(e.body, "Responses") { // which are as many as the statements
				errs["check"] = st.Check(t.Context())
			}
			for op, err := range errs {
				if !errors.Is(err, store.ErrMisconfigured) || !strings.Contains(err.Error(), "IDEMSK_BATCHING=off") {
					t.Errorf("%s: %v; want ErrMisconfigured, and the remedy", op, err)
				}
			}
			engine, err := idem.New(st, idem.Config{FailOpen: true})
			if err != nil {
				t.Fatal(err)
			}
			if out := engine.Do(t.Context(), idem.Task{Key: "k", Handler: idem.HandlerFunc(func(context.Context) ([]byte, error) {
				return nil, nil
			})}); out.Kind != idem.Executed {
				t.Errorf("one record needs no batch: %v, %v", out.Kind, out.Err)
			}
			unbatched := newEmulator(t, e, "BatchExecuteStatement", dynamostore.Config{Unbatched: true})
			if err := unbatched.Check(t.Context()); err != nil && !strings.Contains(err.Error(), "TTL") {
				t.Errorf("without batches: %v", err)
			}
			for _, res := range unbatched.Claim(t.Context(), claimsOfTwo()) {
				if res.State != store.Claimed {
					t.Errorf("without batches: %v", res.Err)
				}
			}
		})
	}
}

// So are effects on an endpoint without transactions, and each operation of an endpoint that is not DynamoDB.
func TestEndpointWithoutAnOperationIsAConfigurationError(t *testing.T) {
	t.Parallel()
	for name, e := range answersOfEmulators {
		if e.status == http.StatusOK || strings.Contains(e.body, "wasn't well formed") {
			continue // of statements
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := newEmulator(t, e, "TransactWriteItems", dynamostore.Config{})
			engine, err := idem.New(st, idem.Config{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			out := engine.Do(ctx, idem.Task{Key: "k", Handler: idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
				tx, err := dynamostore.TxFrom(ctx)
				if err != nil {
					return nil, err
				}
				return nil, tx.Enlist(dynamostore.Write{
					Put:    &types.Put{TableName: aws.String("books"), Item: map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "b"}}},
					PutKey: []string{"id"},
				})
			})})
			if !errors.Is(out.Err, store.ErrMisconfigured) || !strings.Contains(out.Err.Error(), "does not support TransactWriteItems") {
				t.Errorf("%v, %v; want ErrMisconfigured, and the operation", out.Kind, out.Err)
			}
			if strings.HasPrefix(name, "moto") { // a page with status 500 may be that of a proxy
				return
			}
			st = newEmulator(t, e, "PutItem", dynamostore.Config{})
			err = st.Claim(t.Context(), claimsOfTwo()[:1])[0].Err
			if !errors.Is(err, store.ErrMisconfigured) || !strings.Contains(err.Error(), "is it one of DynamoDB?") {
				t.Errorf("a claim: %v; want ErrMisconfigured", err)
			}
		})
	}
}

// What a proxy answers while DynamoDB is away, and DynamoDB's own errors, are outages as before.
func TestAnswersOfAnOutageAreNoConfigurationError(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]emulator{
		"a gateway":               {status: 502, body: `<html>Bad Gateway</html>`},
		"a service that is away":  {status: 503, body: `<html>Service Unavailable</html>`},
		"a gateway that waits":    {status: 504, body: `<html>Gateway Timeout</html>`},
		"an internal error":       {status: 500, body: `{"__type":"InternalServerError","message":"Internal server error"}`},
		"an internal error, late": {status: 500, body: `{"__type":"InternalFailure"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := newEmulator(t, e, "BatchExecuteStatement", dynamostore.Config{})
			if err := st.Claim(t.Context(), claimsOfTwo())[0].Err; err == nil || errors.Is(err, store.ErrMisconfigured) {
				t.Errorf("%v; want another error", err)
			}
		})
	}
}

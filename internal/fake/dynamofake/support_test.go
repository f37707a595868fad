package dynamofake_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/idemsk/idemsk/internal/awsclient"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
)

// The tables of these tests have the hash key k.
const table = "table"

type (
	attributes = map[string]types.AttributeValue
	names      = map[string]string
)

func str(s string) types.AttributeValue      { return &types.AttributeValueMemberS{Value: s} }
func num(s string) types.AttributeValue      { return &types.AttributeValueMemberN{Value: s} }
func bin(s string) types.AttributeValue      { return &types.AttributeValueMemberB{Value: []byte(s)} }
func boolean(b bool) types.AttributeValue    { return &types.AttributeValueMemberBOOL{Value: b} }
func null() types.AttributeValue             { return &types.AttributeValueMemberNULL{Value: true} }
func strs(s ...string) types.AttributeValue  { return &types.AttributeValueMemberSS{Value: s} }
func nums(s ...string) types.AttributeValue  { return &types.AttributeValueMemberNS{Value: s} }
func key(k string) attributes                { return attributes{"k": str(k)} }
func dict(m attributes) types.AttributeValue { return &types.AttributeValueMemberM{Value: m} }
func bins(b ...[]byte) types.AttributeValue  { return &types.AttributeValueMemberBS{Value: b} }
func list(l ...types.AttributeValue) types.AttributeValue {
	return &types.AttributeValueMemberL{Value: l}
}

// unstarted returns a server with the table that does not listen.
func unstarted(t testing.TB, config dynamofake.Config) *dynamofake.Server {
	t.Helper()
	server, err := dynamofake.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.CreateTable(dynamofake.Table{Name: table, HashKey: "k",
		TTLAttribute: "expires"}); err != nil {
		t.Fatal(err)
	}
	return server
}

// start runs a server with the table until the test ends, and returns a client of it without retries.
func start(t testing.TB, config dynamofake.Config) (*dynamofake.Server, *dynamodb.Client) {
	t.Helper()
	server := unstarted(t, config)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server, client(server.URL())
}

// client returns a client of a DynamoDB that does not check credentials. It does not retry.
func client(endpoint string) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String(endpoint),
		HTTPClient:   awsclient.New(nil, time.Minute),
		Retryer:      aws.NopRetryer{},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		}),
	})
}

// failure splits an answer's error into code and message; both are empty without one.
func failure(err error) (code, message string) {
	if err == nil {
		return "", ""
	}
	api := smithy.APIError(nil)
	if !errors.As(err, &api) {
		return "not an answer", err.Error()
	}
	return api.ErrorCode(), api.ErrorMessage()
}

// text formats attributes so that equal attributes are equal texts: sorted, with numbers in one form.
func text(m attributes) string {
	if m == nil {
		return "none"
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m)) {
		b.WriteString(name + "=" + valueText(m[name]) + " ")
	}
	return "{" + b.String() + "}"
}

func valueText(v types.AttributeValue) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return "S:" + v.Value
	case *types.AttributeValueMemberN:
		return "N:" + numberText(v.Value)
	case *types.AttributeValueMemberB:
		return fmt.Sprintf("B:%q", v.Value)
	case *types.AttributeValueMemberBOOL:
		if v.Value {
			return "true"
		}
		return "false"
	case *types.AttributeValueMemberNULL:
		return "NULL"
	case *types.AttributeValueMemberM:
		return "M:" + text(v.Value)
	case *types.AttributeValueMemberL:
		return "L:" + join(v.Value, valueText)
	case *types.AttributeValueMemberSS:
		return "SS:" + join(slices.Sorted(slices.Values(v.Value)), strings.Clone)
	case *types.AttributeValueMemberNS:
		return "NS:" + join(slices.Sorted(slices.Values(v.Value)), numberText)
	case *types.AttributeValueMemberBS:
		sorted := slices.SortedFunc(slices.Values(v.Value), slices.Compare)
		return "BS:" + join(sorted, func(b []byte) string { return string(b) })
	}
	return "unknown"
}

// numberText returns the number as a fraction, because DynamoDB Local keeps trailing zeros after the point,
// unlike DynamoDB.
func numberText(s string) string {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return "not a number: " + s
	}
	return r.RatString()
}

func join[T any](list []T, render func(T) string) string {
	parts := make([]string, len(list))
	for i := range list {
		parts[i] = render(list[i])
	}
	return "[" + strings.Join(parts, " ") + "]"
}

// createTable creates a table with the hash key k by the API.
func createTable(t testing.TB, db *dynamodb.Client, name string) {
	t.Helper()
	if _, err := db.CreateTable(context.Background(), createTableInput(name)); err != nil {
		t.Fatalf("create table %s: %v", name, err)
	}
}

func createTableInput(name string) *dynamodb.CreateTableInput {
	return &dynamodb.CreateTableInput{
		TableName:   &name,
		BillingMode: types.BillingModePayPerRequest,
		KeySchema:   []types.KeySchemaElement{{AttributeName: aws.String("k"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("k"), AttributeType: types.ScalarAttributeTypeS},
		},
	}
}

// cancellationReasons formats the cancellation reasons of a transaction, code and item of each action. It is
// empty for other errors.
func cancellationReasons(err error) string {
	cancelled := (*types.TransactionCanceledException)(nil)
	if !errors.As(err, &cancelled) {
		return ""
	}
	reasons := make([]string, len(cancelled.CancellationReasons))
	for i, reason := range cancelled.CancellationReasons {
		reasons[i] = aws.ToString(reason.Code) + " " + text(reason.Item)
	}
	return strings.Join(reasons, "|")
}

const contenders = 64

// together runs f in n goroutines at the same time, and returns the results.
func together[T any](n int, f func(i int) T) []T {
	results := make([]T, n)
	ready := make(chan struct{})
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			<-ready
			results[i] = f(i)
		})
	}
	close(ready)
	group.Wait()
	return results
}

func count(codes []string, code string) int {
	n := 0
	for _, c := range codes {
		if c == code {
			n++
		}
	}
	return n
}

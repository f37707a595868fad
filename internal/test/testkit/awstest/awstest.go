// Package awstest connects tests to AWS services on this machine, LocalStack or fakes, and makes what the
// tests need there.
package awstest

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/rand"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/idemsk/idemsk/internal/awsclient"
	"github.com/idemsk/idemsk/internal/fake/sqsfake"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

// LocalStack returns the endpoint of LocalStack, which make test-rest starts.
func LocalStack(tb testing.TB) string {
	tb.Helper()
	endpoint := os.Getenv("IDEMSK_TEST_ENDPOINT")
	if endpoint == "" {
		tb.Fatal("IDEMSK_TEST_ENDPOINT is not set: run `make test-rest`, or `make localstack-up` and set it to http://127.0.0.1:4566")
	}
	return endpoint
}

// Config returns the SDK's configuration for the services at an endpoint. Connections are closed when the
// test ends. No reply is lost by the client itself (see awsclient), so that a message is received once.
func Config(tb testing.TB, endpoint string) aws.Config {
	tb.Helper()
	transport := &http.Transport{}
	tb.Cleanup(transport.CloseIdleConnections)
	return aws.Config{
		Region: "us-east-1", BaseEndpoint: &endpoint,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient:  awsclient.New(&http.Client{Transport: transport}, 0),
	}
}

// Name returns a unique name for a table, a queue or a function. LocalStack has those of all tests.
func Name(prefix string) string { return prefix + "-" + strings.ToLower(rand.Text()[:8]) }

// CreateTable creates a table with a partition key that is a string, and no sort key. It is deleted when the
// test ends.
func CreateTable(tb testing.TB, db *dynamodb.Client, table, key string) {
	tb.Helper()
	_, err := db.CreateTable(tb.Context(), &dynamodb.CreateTableInput{
		TableName: &table, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: &key,
			AttributeType: types.ScalarAttributeTypeS}},
		KeySchema: []types.KeySchemaElement{{AttributeName: &key, KeyType: types.KeyTypeHash}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	DeleteTableAtEnd(tb, db, table)
}

// DeleteTableAtEnd deletes a table when the test ends.
func DeleteTableAtEnd(tb testing.TB, db *dynamodb.Client, table string) {
	tb.Helper()
	AtEnd(tb, func(ctx context.Context) error {
		_, err := db.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &table})
		return err
	})
}

// AtEnd removes something when the test, and with it its context, has ended.
func AtEnd(tb testing.TB, remove func(ctx context.Context) error) {
	tb.Helper()
	tb.Cleanup(func() {
		if err := remove(context.Background()); err != nil {
			tb.Error(err)
		}
	})
}

// NewQueue creates a queue in an in-process SQS, and returns its URL. A name that ends in .fifo makes a FIFO
// queue.
func NewQueue(tb testing.TB, name string) (client *sqs.Client, url string) {
	tb.Helper()
	client = sqs.NewFromConfig(Config(tb, testkit.Serve(tb, sqsfake.New, sqsfake.Config{}).URL()))
	return client, CreateQueue(tb, client, name)
}

// CreateQueue creates a queue and returns its URL. A name that ends in .fifo makes a FIFO queue. attributes are
// names and values.
func CreateQueue(tb testing.TB, client *sqs.Client, name string, attributes ...string) (url string) {
	tb.Helper()
	in := &sqs.CreateQueueInput{QueueName: &name, Attributes: make(map[string]string)}
	if strings.HasSuffix(name, ".fifo") {
		in.Attributes["FifoQueue"] = "true"
	}
	for i := 0; i < len(attributes); i += 2 {
		in.Attributes[attributes[i]] = attributes[i+1]
	}
	out, err := client.CreateQueue(tb.Context(), in)
	if err != nil {
		tb.Fatal(err)
	}
	return *out.QueueUrl
}

// Package returns the package of a function for Lambda: a zip with the program as bootstrap.
func Package(tb testing.TB, program string) []byte {
	tb.Helper()
	code, err := os.ReadFile(program) //nolint:gosec // of the caller
	if err != nil {
		tb.Fatalf("%v: run `make build`, or `make test-rest`", err)
	}
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	h := &zip.FileHeader{Name: "bootstrap", Method: zip.Deflate}
	h.SetMode(0o755)
	f, err := w.CreateHeader(h)
	if err == nil {
		_, err = f.Write(code)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		tb.Fatal(err)
	}
	return buf.Bytes()
}

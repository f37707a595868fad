package linear_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/dynamofake"
	"github.com/idemsk/idemsk/internal/linear"
	"github.com/idemsk/idemsk/internal/testkit"
	"github.com/idemsk/idemsk/internal/testkit/awstest"
)

func TestDynamoDBInProcess(t *testing.T) {
	url := testkit.Serve(t, dynamofake.New, dynamofake.Config{}).URL()
	linearizable(t, 15, func(t *testing.T) linear.Config { return onDynamoDB(t, url, patience) })
}

// onDynamoDB returns clients of stores on a new table.
func onDynamoDB(t *testing.T, url string, patience time.Duration) (cfg linear.Config) {
	t.Helper()
	table := awstest.Name("linear")
	direct := dynamodb.NewFromConfig(awstest.Config(t, url))
	if err := dynamostore.CreateTable(t.Context(), direct, table); err != nil {
		t.Fatal(err)
	}
	awstest.DeleteTableAtEnd(t, direct, table)
	for range clients {
		n, url := newNetwork(t, url, patience)
		transport := &http.Transport{DialContext: n.dial}
		t.Cleanup(transport.CloseIdleConnections)
		client := dynamostore.NewClient(aws.Config{
			Region: "us-east-1", BaseEndpoint: &url, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
			HTTPClient: &http.Client{Transport: transport, Timeout: patience},
		})
		s, err := dynamostore.New(client, dynamostore.Config{Table: table, MaxClockSkew: skew})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Clients = append(cfg.Clients, n.client(s))
	}
	return cfg
}

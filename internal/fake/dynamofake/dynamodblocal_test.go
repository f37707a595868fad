//go:build rest

package dynamofake_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"pgregory.net/rapid"

	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/subprocess/serverproc"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

// dynamoDBLocalVariable is the variable with the endpoint of a running DynamoDB Local. Without it the test
// starts one.
const dynamoDBLocalVariable = "IDEMSK_TEST_DYNAMODB_LOCAL"

// dynamoDBLocal returns a client of the DynamoDB Local that the environment names, or of one that it starts.
func dynamoDBLocal(t *testing.T) *dynamodb.Client {
	t.Helper()
	if endpoint := os.Getenv(dynamoDBLocalVariable); endpoint != "" {
		return client(endpoint)
	}
	return client(testkit.Run(t, serverproc.StartScript, serverproc.DynamoDBLocal).Addr())
}

// TestDynamoDBLocal compares the fake, and the golden files of the other tests, with DynamoDB Local.
func TestDynamoDBLocal(t *testing.T) {
	local := dynamoDBLocal(t)
	_, fake := start(t, dynamofake.Config{})
	unique := fmt.Sprintf("dynamofake-%d-%d", os.Getpid(), time.Now().UnixNano())
	t.Run("conditions", func(t *testing.T) {
		checkGolden(t, local, scratchTable(t, local, unique+"-conditions"), "testdata/conditions.txt",
			goldenCondition)
	})
	t.Run("updates", func(t *testing.T) {
		checkGolden(t, local, scratchTable(t, local, unique+"-updates"), "testdata/updates.txt", goldenUpdate)
	})
	t.Run("tables", func(t *testing.T) {
		compareTables(t, &pair{local: local, fake: fake, table: unique + "-tables"})
	})
	t.Run("random", func(t *testing.T) {
		p := &pair{local: local, fake: fake, table: scratchTable(t, local, unique+"-random")}
		scratchTable(t, fake, p.table)
		testkit.Histories(t, testkit.Size(t, 25, 100))
		rapid.Check(t, func(t *rapid.T) {
			p.clear(t)
			t.Repeat(p.steps())
		})
	})
}

// scratchTable creates a table that is deleted after the test.
func scratchTable(t *testing.T, db *dynamodb.Client, name string) string {
	t.Helper()
	createTable(t, db, name)
	t.Cleanup(func() {
		if _, err := db.DeleteTable(context.Background(),
			&dynamodb.DeleteTableInput{TableName: &name}); err != nil {
			t.Errorf("delete table %s: %v", name, err)
		}
	})
	return name
}

//go:build servers

package dynamofake_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"pgregory.net/rapid"

	"github.com/idemsk/idemsk/internal/dynamofake"
	"github.com/idemsk/idemsk/internal/serverproc"
	"github.com/idemsk/idemsk/internal/testkit"
)

// dynamoDBLocalVariable names the endpoint of a DynamoDB Local that is up; without it the test starts one.
const dynamoDBLocalVariable = "IDEMSK_TEST_DYNAMODB_LOCAL"

// dynamoDBLocal returns a client of a DynamoDB Local, which it starts unless the environment names one.
func dynamoDBLocal(t *testing.T) *dynamodb.Client {
	t.Helper()
	if endpoint := os.Getenv(dynamoDBLocalVariable); endpoint != "" {
		return client(endpoint)
	}
	return client(testkit.Run(t, serverproc.StartScript, serverproc.DynamoDBLocal).Addr())
}

// TestDynamoDBLocal holds the fake, and the files that the other tests hold it to, to DynamoDB Local.
func TestDynamoDBLocal(t *testing.T) {
	local := dynamoDBLocal(t)
	_, fake := start(t, dynamofake.Config{})
	unique := fmt.Sprintf("dynamofake-%d-%d", os.Getpid(), time.Now().UnixNano())
	t.Run("conditions", func(t *testing.T) {
		checkGolden(t, local, scratchTable(t, local, unique+"-conditions"), "testdata/conditions.txt", goldenCondition)
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
		rapid.Check(t, func(t *rapid.T) {
			p.clear(t)
			t.Repeat(p.steps())
		})
	})
}

// scratchTable makes a table that is gone after the test.
func scratchTable(t *testing.T, db *dynamodb.Client, name string) string {
	t.Helper()
	createTable(t, db, name)
	t.Cleanup(func() {
		if _, err := db.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: &name}); err != nil {
			t.Errorf("delete table %s: %v", name, err)
		}
	})
	return name
}

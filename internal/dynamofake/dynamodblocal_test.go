//go:build servers

package dynamofake_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"pgregory.net/rapid"

	"github.com/idemsk/idemsk/internal/dynamofake"
	"github.com/idemsk/idemsk/internal/serverproc"
)

// dynamoDBLocalVariable is the variable with the endpoint of a running DynamoDB Local. Without it the test starts one.
const dynamoDBLocalVariable = "IDEMSK_TEST_DYNAMODB_LOCAL"

const remedy = "install Java 17 and Maven, or set " + dynamoDBLocalVariable + " to the endpoint of a DynamoDB Local"

// dynamoDBLocal returns a client of the DynamoDB Local that the environment names, or of one that it starts.
func dynamoDBLocal(t *testing.T) *dynamodb.Client {
	t.Helper()
	if endpoint := os.Getenv(dynamoDBLocalVariable); endpoint != "" {
		return client(endpoint)
	}
	root, err := serverproc.Repository()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(filepath.Join(root, "localstack", "localstack.sh"), "dynamodb-local", "0")
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatalf("start DynamoDB Local: %v; %s", err, remedy)
	}
	ended := make(chan error, 1)
	endpoint := make(chan string, 1)
	go func() {
		announced(output, endpoint)
		ended <- command.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM) // fails if it has ended by itself
		for err := range ended {                    // until it is closed
			t.Logf("DynamoDB Local ended: %v", err)
		}
	})
	const patience = 5 * time.Minute // the script may have to install it first
	select {
	case url := <-endpoint:
		return client(url)
	case err := <-ended:
		t.Fatalf("DynamoDB Local did not start: %v (its reason is above); %s", err, remedy)
	case <-time.After(patience):
		t.Fatalf("DynamoDB Local did not start within %v", patience)
	}
	return nil
}

// announced reads the output of a server to its end and sends the endpoint that the server prints.
func announced(output io.Reader, endpoint chan<- string) {
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if url, ok := strings.CutPrefix(lines.Text(), "listening "); ok {
			endpoint <- strings.TrimSpace(url)
		}
	}
}

// TestDynamoDBLocal compares the fake, and the golden files of the other tests, with DynamoDB Local.
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

// scratchTable creates a table that is deleted after the test.
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

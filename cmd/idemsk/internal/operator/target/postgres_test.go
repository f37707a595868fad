//go:build servers

package target_test

import (
	"strings"
	"testing"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/clitest"
	"github.com/idemsk/idemsk/idem/dynamostore"
)

// IDEMSK_TABLE, which errors of the stores name, is the default of --table.
func TestTableFromTheEnvironment(t *testing.T) {
	endpoint, client := clitest.NewDynamoDB(t)
	if err := dynamostore.CreateTable(t.Context(), client, "other"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("IDEMSK_TABLE", "other")
	if r := clitest.Run(t, "list", "--endpoint-url", endpoint); r.Code != 0 ||
		!strings.Contains(r.Err, "scanning the table other") {
		t.Errorf("%+v", r)
	}
	if r := clitest.Run(t, "list", "--endpoint-url", endpoint, "--table", "nowhere"); r.Code != 1 ||
		!strings.Contains(r.Err, "check the name of the table") {
		t.Errorf("%+v", r)
	}
}

func TestNoDatabase(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"migrate"}, {"prune"}, {"migrate", "x"}, {"prune", "--batch", "0"}, {"prune", "--every", "-1s"},
		{"migrate", "--store-url", "postgres://u:secret@h:port/x"},
	} {
		if r := clitest.Run(t, args...); r.Code != 2 || strings.Contains(r.Err, "secret") {
			t.Errorf("%v: %+v; want exit 2 and no password", args, r)
		}
	}
}

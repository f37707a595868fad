//go:build servers

package ledger

import (
	"path/filepath"
	"testing"
)

// buildFor builds the program that has a store besides DynamoDB.
func buildFor(t *testing.T, store string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "bootstrap")
	if err := build(program, theFunction+"/"+store); err != nil {
		t.Fatal(err)
	}
	return program
}

// processOnStore runs a program that is built for a store through what processOnDynamoDB does, on the ledger
// a-ledger.
func processOnStore(t *testing.T, program, store string, env map[string]string) {
	t.Helper()
	env["IDEMSK_STORE"], env["IDEMSK_SIMULATE"], env["IDEMSK_LEDGER_TABLE"] = store, "on", "a-ledger"
	p := startProcess(t, program, env)
	equal(t, "invocations", p.settle("duplicate-in-batch"), 1)
	equal(t, "invocations", p.settle("fails-twice-then-succeeds"), 3)
	equal(t, "executed", p.sum("Executed"), 4)
}

//go:build postgres || redis

package main

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// processOnStore runs the program that is built for a store through what processOnDynamoDB does.
func processOnStore(t *testing.T, store string, env map[string]string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "bootstrap")
	cmd := exec.Command("go", "build", "-tags", "lambda.norpc,"+store, "-o", program, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	env["IDEMSK_STORE"], env["IDEMSK_SIMULATE"], env["IDEMSK_LEDGER_TABLE"] = store, "on", "a-ledger"
	p := startProcess(t, program, env)
	equal(t, "invocations", p.settle("duplicate-in-batch"), 1)
	equal(t, "invocations", p.settle("fails-twice-then-succeeds"), 3)
	equal(t, "executed", p.sum("Executed"), 4)
}

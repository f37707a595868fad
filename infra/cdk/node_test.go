package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestWithoutNode(t *testing.T) {
	script := func(lines string) string {
		file := filepath.Join(t.TempDir(), "node")
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"+lines+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return file
	}
	broken, old, odd := script("exit 3"), script("echo v18.20.4"), script("echo hello")
	for program, want := range map[string]string{
		"/nowhere/node": "the CDK runs on Node, but /nowhere/node --version failed: fork/exec /nowhere/node: " +
			"no such file or directory: install Node 20 or newer (https://nodejs.org)",
		"nodeless": "the CDK runs on Node, but nodeless --version failed: exec: \"nodeless\": " +
			"executable file not found in $PATH: install Node 20 or newer (https://nodejs.org)",
		broken: "the CDK runs on Node, but " + broken +
			" --version failed: exit status 3: install Node 20 or newer (https://nodejs.org)",
		old:                    "the CDK does not run on Node v18.20.4: install Node 20 or newer (https://nodejs.org)",
		odd:                    "the CDK does not run on Node hello: install Node 20 or newer (https://nodejs.org)",
		script("echo v20.0.0"): "<nil>", script("echo v24.1.0"): "<nil>",
	} {
		t.Setenv("JSII_NODE", program)
		equal(t, program, fmt.Sprint(requireNode(t.Context())), want)
	}
}

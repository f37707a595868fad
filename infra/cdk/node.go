package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// requireNode returns an error that says what to install. Without Node the CDK's runtime would panic.
func requireNode(ctx context.Context) error {
	const least = 20 // the oldest major version that the CDK's runtime supports
	install := fmt.Sprintf("install Node %d or newer (https://nodejs.org)", least)
	program := cmp.Or(os.Getenv("JSII_NODE"), "node")                   // the variable is the runtime's own
	out, err := exec.CommandContext(ctx, program, "--version").Output() //nolint:gosec // the CDK's runtime runs the same program
	if err != nil {
		return fmt.Errorf("the CDK runs on Node, but %s --version failed: %w: %s", program, err, install)
	}
	version := strings.TrimSpace(string(out))
	major, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	if n, err := strconv.Atoi(major); err != nil || n < least {
		return fmt.Errorf("the CDK does not run on Node %s: %s", version, install)
	}
	return nil
}

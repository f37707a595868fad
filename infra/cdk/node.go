package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// leastNode is the oldest major version of Node that the CDK's runtime supports.
const leastNode = 20

// requireNode returns an error that says what to install if there is no Node that runs the CDK: its runtime
// would panic.
func requireNode(ctx context.Context) error {
	program := cmp.Or(os.Getenv("JSII_NODE"), "node")                   // the variable is the runtime's own
	out, err := exec.CommandContext(ctx, program, "--version").Output() //nolint:gosec // the CDK's runtime runs the same program
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("the CDK runs on Node, and there is no %s: install Node %d or newer (https://nodejs.org)", program, leastNode)
	}
	if err != nil {
		return fmt.Errorf("the CDK runs on Node, but %s --version failed: %w: install Node %d or newer (https://nodejs.org)", program, err, leastNode)
	}
	version := strings.TrimSpace(string(out))
	major, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	if n, err := strconv.Atoi(major); err != nil || n < leastNode {
		return fmt.Errorf("the CDK does not run on Node %s: install Node %d or newer (https://nodejs.org)",
			version, leastNode)
	}
	return nil
}

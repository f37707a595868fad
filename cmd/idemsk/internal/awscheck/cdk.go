package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// outputs are those of both stacks.
type outputs struct {
	ClusterArn, ProducerName           string
	KeysTable, LedgerTable, AuditTable string
	DeadLetterQueueURL                 string `json:"DeadLetterQueueUrl"`
	FunctionArn                        string
}

// patience is how long the CDK's command line may take to end after a signal.
const patience = 20 * time.Second

// cdkRun runs the CDK's command line on the app of the check. It has a process group of its own, so that a
// Ctrl-C in the terminal does not end it while it destroys the stacks.
func (c *check) cdkRun(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, c.cdk, args...) //nolint:gosec // scripts/cdk.sh
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = patience
	cmd.Stdout, cmd.Stderr = c.Err, c.Err // the report alone goes to the output
	cmd.Env = append(os.Environ(), "IDEMSK_APP=awscheck", "AWS_REGION="+c.cfg.Region)
	if c.local != "" {
		cmd.Env = append(cmd.Env, "AWS_ENDPOINT_URL="+c.local, "AWS_PROFILE=", "AWS_SESSION_TOKEN=",
			"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test")
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the CDK's %s: %w; its messages are above the report", args[0],
			errors.Join(err, context.Cause(ctx)))
	}
	return nil
}

// settings are the arguments of each run of the app.
func (c *check) settings() []string {
	architecture := runtime.GOARCH
	if architecture == "amd64" {
		architecture = "x86_64" // as Lambda names it
	}
	args := []string{"--output", filepath.Join(c.work, "cdk.out")}
	for name, value := range map[string]string{
		"name": c.name, "architecture": architecture, "handler": c.handler, "producer": c.producer,
		"onDemand": strconv.FormatBool(c.onDemand), "local": strconv.FormatBool(c.local != ""),
	} {
		args = append(args, "-c", name+"="+value)
	}
	return args
}

// stack returns the name of a stack: cluster or consumer.
func (c *check) stack(which string) string { return c.name + "-" + which }

// deploy deploys a stack and reads its outputs.
func (c *check) deploy(ctx context.Context, which string) error {
	file := filepath.Join(c.work, "outputs.json")
	args := append([]string{"deploy", c.stack(which), "--exclusively", "--require-approval", "never",
		"--outputs-file", file}, c.settings()...)
	if err := c.cdkRun(ctx, args...); err != nil {
		return err
	}
	data, err := os.ReadFile(file) //nolint:gosec // the CDK has written it
	if err != nil {
		return err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return fmt.Errorf("the outputs of the stack %s: %w", c.stack(which), err)
	}
	return json.Unmarshal(all[c.stack(which)], &c.out)
}

// destroy destroys the stacks, the consumer first, because it uses the cluster.
func (c *check) destroy(ctx context.Context) error {
	return c.cdkRun(ctx, append([]string{"destroy", "--all", "--force"}, c.settings()...)...)
}

// remains says what may be left after a destruction that failed, and how to remove it.
func (c *check) remains(p *plan) string {
	if c.local != "" {
		return "\nLEFT in LocalStack: the stacks " + c.name + "-…; make localstack-down removes all of it.\n"
	}
	hourly := 0.0
	for _, cost := range p.costs() {
		hourly += cost.hourly * otherPlace
	}
	text := fmt.Sprintf("\nLEFT in your account, at up to $%.2f an hour (do not paste this into an issue):\n", hourly)
	for _, which := range []string{"consumer", "cluster"} {
		text += fmt.Sprintf("    aws cloudformation delete-stack --region %[1]s --stack-name %[2]s\n"+
			"    aws cloudformation wait stack-delete-complete --region %[1]s --stack-name %[2]s\n", c.cfg.Region,
			c.stack(which))
	}
	return text + "If a deletion fails, `aws cloudformation describe-stack-events` names the resource that is in the way.\n"
}

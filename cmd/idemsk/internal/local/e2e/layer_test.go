//go:build rest

package e2e_test

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

// Behind the layer a Python function that knows nothing of idempotency books each payment once, with
// redelivered batches, batches that run twice at once, and killed processes. The only exceptions are records
// that were with the function when its process was killed: the report names each with its kill.
func TestFunctionBehindTheLayer(t *testing.T) {
	python, _ := languages(t, "bookings.handler")
	records := testkit.Size(t, 3000, 10_000)
	counts := regexp.MustCompile(`([0-9,]+) payments were booked, ([0-9,]+) more than once`)
	deliver := func(args ...string) (report, payments, doubles string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "bookings")
		report = runLocal(t, append(args, "--function", python, "--env", "BOOKINGS="+file, "--bookings", file,
			"--produce", strconv.Itoa(records), "--seed", "7", "--until-drained", "--function-response-types",
			"ReportBatchItemFailures"))
		found := counts.FindStringSubmatch(report)
		if found == nil || !strings.Contains(report, "everything is committed") {
			t.Fatalf("the report has no line like %s, or something was not delivered", counts)
		}
		return report, found[1], strings.ReplaceAll(found[2], ",", "")
	}
	const unexplained = "Booked again without a kill"
	faults := []string{"local", "--duplicate", "0.3", "--concurrent-duplicates", "0.1"}
	report, payments, doubles := deliver(faults...)
	if n, err := strconv.Atoi(doubles); err != nil || n < records/10 ||
		!strings.Contains(report, unexplained) {
		t.Errorf("without the layer only %s payments were booked more than once", doubles)
	}
	report, behind, doubles := deliver(append(faults, "--layer", "--kill", "0.1")...)
	if behind != payments {
		t.Errorf("%s payments were booked, want %s", behind, payments)
	}
	named := regexp.MustCompile(`attempt \d+ +killed \S+ +process \d+ +request \S+ +in \S+`).MatchString(
		report)
	if strings.Contains(report, unexplained) || named != (doubles != "0") {
		t.Errorf("%s payments were booked more than once, want each with a kill", doubles)
	}
}

// The same with the messages of a queue.
func TestQueueBehindTheLayer(t *testing.T) {
	python, _ := languages(t, "messages.handler")
	deliver := func(args ...string) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "bookings")
		return runLocal(t, append(args, "--sqs", "payments.fifo", "--visibility-timeout", "6s",
			"--function", python, "--env", "BOOKINGS="+file, "--bookings", file, "--produce", "1000", "--seed", "7",
			"--until-drained", "--function-response-types", "ReportBatchItemFailures", "--duplicate", "0.3"))
	}
	const unexplained = "Booked again without a kill"
	if report := deliver("local"); !strings.Contains(report, unexplained) {
		t.Error("without the layer no payment was booked more than once")
	}
	report := deliver("local", "--layer", "--kill", "0.05")
	if strings.Contains(report, unexplained) || !strings.Contains(report, "the queue is empty") {
		t.Error("a payment was booked again without a kill, or something was not delivered")
	}
}

// behindLayer returns the commands that run functions behind the layer.
func behindLayer(t *testing.T, python, node string) (string, string) {
	t.Helper()
	python, err := local.BehindLayer(python)
	if err != nil {
		t.Fatal(err)
	}
	node, err = local.BehindLayer(node)
	if err != nil {
		t.Fatal(err)
	}
	return python, node
}

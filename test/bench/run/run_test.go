//go:build rest

package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The Go peers are measured with each series of the stub. The run fails if a peer does not start, or handles
// too few records, or a record twice.
func TestGoPeersAreMeasured(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", dir+string(filepath.Separator), "./run",
		"./stub", "./peers/...")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the programs: %v\n%s", err, out)
	}
	run := exec.CommandContext(t.Context(), filepath.Join(dir, "run"), "-programs", dir, "-cache",
		t.TempDir(), "-dynamodb-local", "",
		"-repetitions", "1", "-slow-repetitions", "1", "-cold-starts", "1", "-peers",
		"^(idemsk,|floor|Go loop, 32|franz-go loop)")
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("the run: %v\n%s", err, out)
	}
	for _, peer := range []string{batchedByKey, batchedFewKeys, batchedByPartition, plain, theFloor,
		goAtOnce} {
		for _, series := range []string{"5 ms", "0 ms"} {
			if !measured(string(out), series, peer) {
				t.Errorf("%s was not measured at %s:\n%s", peer, series, out)
			}
		}
	}
	for _, peer := range []string{consumerProcess, pollLoop} {
		if !measured(string(out), fiveMS, peer) {
			t.Errorf("%s was not measured at %s:\n%s", peer, fiveMS, out)
		}
		if measured(string(out), noLatency, peer) {
			t.Errorf("%s was measured at %s, where the Kafka in its process is a large part of its time",
				peer, noLatency)
		}
	}
}

// The script installs the peers in other languages, and measures idemsk-consumer beside the loops.
func TestConsumersInOtherLanguagesAreMeasured(t *testing.T) {
	t.Parallel()
	run := exec.CommandContext(t.Context(), "scripts/bench-peers.sh", "-repetitions", "1",
		"-slow-repetitions", "1", "-series", fiveMS, "-peers", "^(idemsk-consumer|kafka)")
	run.Dir = "../../.."
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("the run: %v\n%s", err, out)
	}
	for _, peer := range []string{nodeService, nodeFunction, pythonService, pythonFunction, kafkaJS,
		kafkaPython} {
		if !measured(string(out), fiveMS, peer) {
			t.Errorf("%s was not measured:\n%s", peer, out)
		}
	}
}

func measured(output, series, peer string) bool {
	for line := range strings.Lines(output) {
		if strings.HasPrefix(line, series+" ") && strings.Contains(line, peer) &&
			strings.Contains(line, "records/s fresh") {
			return true
		}
	}
	return false
}

package simulation_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

// instanceVariable is the environment variable of a run in a machine: the scenario as JSON, without its
// order, which is in the random numbers of the machine.
const instanceVariable = "SIMULATE_SCENARIO"

// beginResult begins the line of a machine's output that has the result as JSON.
const beginResult = "\nresult: "

// machine runs scenarios exactly. The tests of this package are compiled to WebAssembly, which has one thread
// and gets its time and its random numbers from the machine. The order of goroutines, select, the order of
// maps and the jitter then depend on these random numbers alone. A run begins with a new memory, so it does
// not depend on the runs before it.
type machine struct {
	runtime wazero.Runtime
	program wazero.CompiledModule
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	file := filepath.Join(t.TempDir(), "simulation.wasm")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags", "synctests", "-o", file, ".")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	code, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{runtime: wazero.NewRuntime(t.Context())}
	t.Cleanup(func() {
		if err := m.runtime.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if _, err := wasi_snapshot_preview1.Instantiate(t.Context(), m.runtime); err != nil {
		t.Fatal(err)
	}
	if m.program, err = m.runtime.CompileModule(t.Context(), code); err != nil {
		t.Fatal(err)
	}
	return m
}

// run runs a scenario in its order.
func (m *machine) run(t *testing.T, s scenario) (res result) {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	// wazero's clocks count how often they are read, unless it is told otherwise.
	cfg := wazero.NewModuleConfig().WithName("").
		WithArgs("simulation", "-test.run=^TestSimulation$").WithEnv(instanceVariable, string(text)).
		WithRandSource(rand.NewChaCha8([32]byte{byte(s.order), byte(s.order >> 8), byte(s.order >> 16)})).
		WithStdout(&out).WithStderr(&out)
	instance, err := m.runtime.InstantiateModule(t.Context(), m.program, cfg)
	if err == nil {
		err = instance.Close(t.Context())
	}
	_, line, found := bytes.Cut(out.Bytes(), []byte(beginResult))
	line, _, _ = bytes.Cut(line, []byte("\n"))
	if wrong := json.Unmarshal(line, &res); !found || wrong != nil {
		t.Fatalf("the machine ended with %v and no result: %v\n%s", err, wrong, &out)
	}
	return res
}

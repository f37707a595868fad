//go:build defects

package simulation_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// overlayFile writes the changed files of a defect, and returns the file for the flag -overlay.
func (d *defect) overlayFile(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	replaced := make(map[string]string)
	for path, text := range d.overlay(t) {
		replaced[path] = filepath.Join(dir, strconv.Itoa(len(replaced))+".go")
		if err := os.WriteFile(replaced[path], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, out, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// The simulation with the defect compiles.
func TestEachDefectIsFound(t *testing.T) {
	for i := range defects {
		d := &defects[i]
		t.Run(d.name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "simulation.test")
			build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-tags", "synctests", "-overlay", d.overlayFile(t), "-o", program, ".")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		})
	}
}

// The tests that a defect names fail with it.
func TestEachDefectFailsItsTests(t *testing.T) {
	for i := range defects {
		d := &defects[i]
		t.Run(d.name, func(t *testing.T) {
			pkg, tests, _ := strings.Cut(d.test, " ")
			run := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-count=1", "-timeout=3m", "-overlay", d.overlayFile(t), "-run", "^("+tests+")$", ".")
			run.Dir = filepath.Join(root, pkg)
			out, err := run.CombinedOutput()
			text := string(out)
			switch {
			case strings.Contains(text, "[build failed]"), strings.Contains(text, "no tests to run"):
				t.Errorf("%v: %s", err, out)
			case err == nil:
				t.Errorf("%s passes", d.test)
			default:
				t.Logf("%.1500s", text)
			}
		})
	}
}

//go:build rest

package main

import (
	"archive/zip"
	"os"
	"os/exec"
	"testing"
)

// The layer's zip has the wrapper script and the program, both executable, where Lambda unpacks them in /opt.
func TestZip(t *testing.T) {
	if out, err := exec.Command("../../scripts/build.sh", "layer").CombinedOutput(); err != nil {
		t.Fatalf("scripts/build.sh layer: %v: %s", err, out)
	}
	for _, arch := range []string{"arm64", "x86_64"} {
		path := "../../dist/idemsk-layer-" + arch + ".zip"
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if limit := int64(6_000_000); info.Size() > limit {
			t.Errorf("%s has %d bytes, at most %d are allowed", path, info.Size(), limit)
		}
		layer, err := zip.OpenReader(path)
		if err != nil {
			t.Fatal(err)
		}
		defer layer.Close()
		modes := make(map[string]os.FileMode)
		for _, f := range layer.File {
			modes[f.Name] = f.Mode().Perm()
		}
		if len(modes) != 2 || modes["idemsk"] != 0o755 || modes["bin/idemsk-layer"] != 0o755 {
			t.Errorf("%s has the files %v, want idemsk and bin/idemsk-layer with the mode 0755", path, modes)
		}
	}
}

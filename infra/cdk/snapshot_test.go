package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// What hashes stand for is checked elsewhere; here they would only make the snapshot change without a reason.
var (
	logicalHash = regexp.MustCompile(`\b([A-Z][A-Za-z0-9]+?)([0-9A-F]{8})([0-9a-f]{32})?\b`)
	assetHash   = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
)

func scrub(in []byte) []byte {
	return logicalHash.ReplaceAll(assetHash.ReplaceAll(in, []byte("ASSET")), []byte("${1}HASH"))
}

// The templates of the plain example and of one with its keys elsewhere, as a whole: a change of them is to
// be seen, and meant. go test -update writes them anew.
func TestTemplates(t *testing.T) {
	for name, more := range map[string]values{"plain": {}, "postgres": onPostgres()} {
		t.Run(name, func(t *testing.T) { snapshot(t, name, synthesise(t, plain(t, more))) })
	}
}

// snapshot compares a template, or a part of one, with testdata.
func snapshot(t *testing.T, name string, part any) {
	t.Helper()
	out, err := json.MarshalIndent(part, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	got := append(scrub(out), '\n')
	file := filepath.Join("testdata", name+".template.json")
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("the template differs from %s; look at the difference after `go test -run %s -update .`",
			file, t.Name())
	}
}

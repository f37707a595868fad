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

// The template of the plain example, as a whole: a change of it is to be seen, and meant. go test -update writes it anew.
func TestTheTemplateOfThePlainExample(t *testing.T) {
	out, err := json.MarshalIndent(synthesise(t, plain(t)), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	got := append(scrub(out), '\n')
	file := filepath.Join("testdata", "plain.template.json")
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
		t.Errorf("the template differs from %s; look at the difference after `go test -run %s -update .`", file, t.Name())
	}
}

package consumer_test

import (
	"encoding/json"
	"maps"
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

// What another store changes in the template, which the app's test has as a whole: a change is to be seen, and
// meant. go test -update writes it anew.
func TestTemplateWithAnotherStore(t *testing.T) {
	snapshot(t, "postgres", changed(t, synthesise(t, plain(t, onPostgres())), synthesise(t, plain(t))))
}

// changed returns the resources of a template that another one does not have in the same way, by name, and
// those that are missing.
func changed(t *testing.T, tpl, from template) map[string]any {
	t.Helper()
	named := func(tpl template) map[string]any {
		all := make(map[string]any)
		for id, resource := range tpl["Resources"].(values) {
			all[string(scrub([]byte(id)))] = resource
		}
		return all
	}
	text := func(v any) string {
		out, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(scrub(out))
	}
	before, after := named(from), named(tpl)
	for name := range before {
		if after[name] == nil {
			after[name] = "missing"
		}
	}
	maps.DeleteFunc(after, func(name string, resource any) bool { return text(resource) == text(before[name]) })
	return after
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

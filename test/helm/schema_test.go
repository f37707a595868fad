package helm_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schema compiles values.schema.json with the library that Helm uses.
func schema(t *testing.T) (compiled *jsonschema.Schema, text object) {
	t.Helper()
	decoded, err := jsonschema.UnmarshalJSON(strings.NewReader(read(t, chart+"/values.schema.json")))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("values.schema.json", decoded); err != nil {
		t.Fatal(err)
	}
	compiled, err = compiler.Compile("values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled, decoded.(object)
}

// exampleOf returns the values that a document has as an example.
func exampleOf(t *testing.T, file string) object {
	t.Helper()
	_, text, _ := strings.Cut(read(t, file), "```yaml\n")
	text, _, ok := strings.Cut(text, "```")
	all := documents(t, text)
	if !ok || len(all) != 1 {
		t.Fatalf("%s has no values", file)
	}
	return all[0]
}

func TestSchemaAcceptsTheValues(t *testing.T) {
	compiled, _ := schema(t)
	defaults := readYAML(t, chart+"/values.yaml")
	readme := exampleOf(t, chart+"/README.md")
	for name, given := range map[string]object{"values.yaml": nil, "README.md": readme,
		"docs/sidecar.md": exampleOf(t, "../../docs/sidecar.md"),
		"plain":           readYAML(t, "testdata/plain.values.yaml"),
		"full":            readYAML(t, "testdata/full.values.yaml"),
		"sidecar":         readYAML(t, "testdata/sidecar.values.yaml")} {
		if err := compiled.Validate(merge(defaults, given)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	configuration(t, mustRender(t, readme)["Deployment"])
}

func TestSchemaRefuses(t *testing.T) {
	compiled, _ := schema(t)
	for name, given := range map[string]object{
		"a misspelt value":                  {"replica": 2},
		"a misspelt value in a map":         {"service": object{"enable": true}},
		"a number that Helm would reformat": {"settings": object{"IDEMSK_MAX_BYTES": 67108864}},
		"a boolean variable":                {"settings": object{"IDEMSK_KAFKA_TLS": true}},
		"no name of a variable":             {"settings": object{"idemsk.table": "a"}},
		"a secret in the values":            {"secrets": object{"IDEMSK_KAFKA_PASSWORD": "secret"}},
		"a secret without a key":            {"secrets": object{"IDEMSK_KAFKA_PASSWORD": object{"name": "a"}}},
		"a longer drain than is valid":      {"drainSeconds": 601},
		"a duration":                        {"drainSeconds": "20s"},
		"a digest that is none":             {"image": object{"digest": "latest"}},
		"an annotation that is no text":     {"podAnnotations": object{"prometheus.io/scrape": true}},
		"arguments that are one text":       {"args": "--http http://127.0.0.1:8080"},
		"a number as an argument":           {"args": []any{"--calls", 4}},
		"a sidecar without an image":        {"sidecars": []any{object{"name": "a"}}},
		"a sidecar with the process' name":  {"sidecars": []any{object{"name": "consumer", "image": "a"}}},
		"a sidecar that is a step": {"sidecars": []any{object{"name": "a", "image": "a",
			"restartPolicy": "Never"}}},
		"a budget that is none": {"podDisruptionBudget": object{"maxUnavailable": "one"}},
	} {
		if compiled.Validate(with(t, given)) == nil {
			t.Errorf("%s is accepted: %v", name, given)
		}
	}
}

// Each value has a place in the schema, and the schema no place without a value.
func TestSchemaHasTheValues(t *testing.T) {
	_, text := schema(t)
	compare(t, "", readYAML(t, chart+"/values.yaml"), text)
}

func compare(t *testing.T, path string, values, schema object) {
	t.Helper()
	properties, ok := schema["properties"].(object)
	if !ok || path == ".resources" { // the latter's two lists of amounts are as free as Kubernetes' own
		return
	}
	if schema["additionalProperties"] != false {
		t.Errorf("%q accepts unknown values", path)
	}
	got, want := slices.Sorted(maps.Keys(values)), slices.Sorted(maps.Keys(properties))
	want = slices.DeleteFunc(want, func(name string) bool { return name == "global" }) // Helm's
	if !slices.Equal(got, want) {
		t.Errorf("%q has the values %v, in the schema %v", path, got, want)
	}
	for name, value := range values {
		if inner, ok := value.(object); ok {
			compare(t, path+"."+name, inner, properties[name].(object))
		}
	}
}

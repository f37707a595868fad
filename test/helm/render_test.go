// Package helm_test renders the chart in deploy/helm. Helm is too slow to build for each run of the tests, so
// the templates are rendered with a few functions that behave as Helm's, and the result is compared with what
// Helm itself rendered (testdata).
package helm_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v3"
)

const chart = "../../deploy/helm/idemsk-consumer"

type object = map[string]any

// readYAML reads a file with one document.
func readYAML(t *testing.T, file string) object {
	t.Helper()
	all := documents(t, read(t, file))
	if len(all) != 1 {
		t.Fatalf("%s has %d documents; want 1", file, len(all))
	}
	return all[0]
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// documents decodes the documents of a text that are not empty. A key that occurs twice is an error.
func documents(t *testing.T, text string) (all []object) {
	t.Helper()
	for decoder := yaml.NewDecoder(strings.NewReader(text)); ; {
		var one object
		err := decoder.Decode(&one)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if one != nil {
			all = append(all, one)
		}
	}
}

// merge returns the defaults with the given values in their place, map by map.
func merge(defaults, given object) object {
	all := maps.Clone(defaults)
	for key, value := range given {
		inner, ok := all[key].(object)
		if with, both := value.(object); ok && both {
			value = merge(inner, with)
		}
		all[key] = value
	}
	return all
}

// kubernetes is the version that Helm assumes without a cluster.
const kubernetes = "v1.37.1"

// render returns the objects of the chart by their kind, for a release named payments. The given values take
// the place of the defaults.
func render(t *testing.T, given object) (map[string]object, error) {
	t.Helper()
	return renderFor(t, kubernetes, given)
}

// renderFor is render for a version of Kubernetes.
func renderFor(t *testing.T, version string, given object) (map[string]object, error) {
	t.Helper()
	tpl := template.New("chart").Option("missingkey=zero")
	tpl.Funcs(functions(tpl))
	files, err := filepath.Glob(chart + "/templates/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no templates: %v", chart, err)
	}
	for _, file := range files {
		if _, err := tpl.New(filepath.Base(file)).Parse(read(t, file)); err != nil {
			t.Fatal(err)
		}
	}
	meta := readYAML(t, chart+"/Chart.yaml")
	data := object{
		"Values":       merge(readYAML(t, chart+"/values.yaml"), given),
		"Release":      object{"Name": "payments", "Namespace": "ledger", "Service": "Helm"},
		"Chart":        object{"Name": meta["name"], "Version": meta["version"]},
		"Capabilities": object{"KubeVersion": object{"Version": version}},
	}
	objects := make(map[string]object)
	for _, file := range files {
		var text bytes.Buffer
		if err := tpl.ExecuteTemplate(&text, filepath.Base(file), data); err != nil {
			return nil, err
		}
		if filepath.Ext(file) != ".yaml" {
			continue
		}
		addByKind(t, objects, documents(t, text.String()))
	}
	return objects, nil
}

func addByKind(t *testing.T, objects map[string]object, all []object) {
	t.Helper()
	for _, one := range all {
		kind := one["kind"].(string)
		if objects[kind] != nil {
			t.Errorf("two objects of the kind %s", kind)
		}
		objects[kind] = one
	}
}

// functions are those of Helm that the chart calls.
func functions(tpl *template.Template) template.FuncMap {
	return template.FuncMap{
		"include": func(name string, data any) (string, error) {
			var text strings.Builder
			err := tpl.ExecuteTemplate(&text, name, data)
			return text.String(), err
		},
		"nindent": func(spaces int, text string) string {
			indent := "\n" + strings.Repeat(" ", spaces)
			return indent + strings.ReplaceAll(text, "\n", indent)
		},
		"toYaml": func(v any) (string, error) {
			text, err := yaml.Marshal(v)
			return strings.TrimSuffix(string(text), "\n"), err
		},
		"required": func(message string, v any) (any, error) {
			if v == nil || v == "" {
				return nil, errors.New(message)
			}
			return v, nil
		},
		"default": func(byDefault, v string) string {
			if v == "" {
				return byDefault
			}
			return v
		},
		"fail":  func(message string) (string, error) { return "", errors.New(message) },
		"quote": func(v any) string { return strconv.Quote(fmt.Sprint(v)) },
		"list":  func(all ...string) []string { return all },
		"dict": func(all ...string) object {
			made := make(object)
			for pair := range slices.Chunk(all, 2) {
				made[pair[0]] = pair[1]
			}
			return made
		},
		"hasKey": func(in object, key string) bool { _, ok := in[key]; return ok },
		"get": func(in object, key string) any {
			if value, ok := in[key]; ok {
				return value
			}
			return ""
		},
		"semverCompare": func(constraint, version string) (less bool, err error) { // only of <1.N-0
			var limit, minor int
			_, badLimit := fmt.Sscanf(constraint, "<1.%d-0", &limit)
			_, badVersion := fmt.Sscanf(version, "v1.%d.", &minor)
			return minor < limit, errors.Join(badLimit, badVersion)
		},
		"int": func(v int) int { return v },
		"add": func(a, b int) int { return a + b },
	}
}

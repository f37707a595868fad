package terraform_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// fieldOf are the construct's fields with the bounds of the module's variables.
var fieldOf = map[string]string{
	"batch_size": "BatchSize", "batch_window": "BatchWindow", "pollers_min": "Min", "pollers_max": "Max",
	"timeout": "Timeout", "memory": "MemoryMB", "reserved_concurrency": "ReservedConcurrency",
	"max_lag": "MaxLag", "max_age": "MaxAge", "max_in_progress": "MaxInProgress",
}

// bounds returns the bounds of a field, times in seconds. The first field of a name in props.go and alarms.go
// is that of the function.
func bounds(t *testing.T, field string) (least, most float64) {
	t.Helper()
	var source []byte
	for _, file := range []string{"props.go", "alarms.go"} {
		text, err := os.ReadFile(filepath.Join("../../infra/cdk/consumer", file))
		if err != nil {
			t.Fatal(err)
		}
		source = append(source, text...)
	}
	m := regexp.MustCompile(`\n\t` + field + ` .*range:"(\S+) to (\S+)"`).FindSubmatch(source)
	if m == nil {
		t.Fatalf("%s has no range", field)
	}
	parse := func(text string) float64 {
		if d, err := time.ParseDuration(text); err == nil {
			return d.Seconds()
		}
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return parse(string(m[1])), parse(string(m[2]))
}

// Each number has the bounds of the construct, and the other variables theirs: what AWS refuses, or what does
// not work, is refused by the plan.
func TestVariablesHaveTheBoundsOfTheConstruct(t *testing.T) {
	m := plain(t)
	number := cty.NumberFloatVal
	check := func(name string, value cty.Value, want bool) {
		t.Helper()
		if got := m.allows(name, value); got != want {
			t.Errorf("%s = %s: allowed %v, want %v", name, value.GoString(), got, want)
		}
	}
	for _, name := range m.variables {
		if m.types[name] != "number" {
			continue
		}
		if len(m.validations[name]) == 0 {
			t.Errorf("the number %s has no bounds", name)
		}
		if field := fieldOf[name]; field != "" {
			least, most := bounds(t, field)
			if name == "timeout" {
				least = 31 // more than the lease
			}
			for value, want := range map[float64]bool{least - 1: false, least: true, most: true, most + 1: false} {
				if name == "reserved_concurrency" { // AWS knows the account's limit
					want = value >= 1
				}
				check(name, number(value), want)
			}
		}
	}
	for name, values := range map[string]map[bool][]cty.Value{
		"lease":                {true: {number(0.1), number(3600)}, false: {number(0), number(3601)}},
		"timeout":              {true: {number(31)}, false: {number(30), number(60.5)}},
		"batch_window":         {true: {cty.NullVal(cty.Number)}, false: {number(1.5)}},
		"reserved_concurrency": {true: {number(-1)}, false: {number(-2)}},
		"log_retention_days":   {true: {number(1), number(365), number(3653)}, false: {number(0), number(2), number(3654)}},
		"starting_position":    {true: {cty.StringVal("LATEST")}, false: {cty.StringVal("EARLIEST")}},
		"architecture":         {true: {cty.StringVal("x86_64")}, false: {cty.StringVal("arm")}},
	} {
		for want, all := range values {
			for _, value := range all {
				check(name, value, want)
			}
		}
	}
	m.context.Variables["var"] = with(m.context.Variables["var"], "pollers_min", number(20))
	check("pollers_max", number(10), false)
}

// allows reports whether the validations of a variable accept a value, with the others as they are.
func (m *module) allows(name string, value cty.Value) bool {
	m.Helper()
	context := &hcl.EvalContext{Functions: m.context.Functions,
		Variables: map[string]cty.Value{"var": with(m.context.Variables["var"], name, value)}}
	return !slices.ContainsFunc(m.validations[name], func(condition hcl.Expression) bool {
		ok, problems := condition.Value(context)
		m.must(problems)
		return ok.False()
	})
}

// with returns an object with another value of an attribute.
func with(object cty.Value, name string, value cty.Value) cty.Value {
	all := object.AsValueMap()
	all[name] = value
	return cty.ObjectVal(all)
}

// The module compares variables with each other, which Terraform can since 1.9.
func TestModuleNeedsATerraformThatComparesVariables(t *testing.T) {
	text, err := os.ReadFile(folder + "/versions.tf")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), `required_version = ">= 1.9"`) {
		t.Errorf("versions.tf:\n%s", text)
	}
}

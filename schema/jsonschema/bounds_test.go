package jsonschema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/schema"
	"github.com/idemsk/idemsk/schema/jsonschema"
)

// Numbers that would take long to calculate with are refused before they are validated.
func TestNumbersAreBounded(t *testing.T) {
	t.Parallel()
	typ := compile(t, schema.Schema{Text: `{"items": {"type": "integer"}}`})
	for number, want := range map[string]string{
		"1e1000": "", "1" + strings.Repeat("0", 999): "", "1e1001": "exponent beyond 1000",
		"1E-1001":                       "exponent beyond 1000",
		"1e99999999999999999999":        "exponent beyond 1000",
		"1" + strings.Repeat("0", 1000): "1001 characters, the limit is 1000",
	} {
		for _, data := range []string{"[" + number + "]", `[{"a":` + number + `}]`} {
			if _, err := typ.ToJSON([]byte(data)); want != "" &&
				(err == nil || !strings.Contains(err.Error(), want)) || want == "" && data[1] == '1' &&
				err != nil {
				t.Errorf("%s: %v; want %q", data, err, want)
			}
		}
	}
}

// The validation ends after a number of steps, also if a schema takes twice as many for each further level.
func TestStepsOfAValidationAreBounded(t *testing.T) {
	t.Parallel()
	levels := func(combine, leaf string) string {
		defs := []string{leaf}
		for i := range 40 {
			ref := fmt.Sprintf(`{"$ref":"#/$defs/a%d"}`, i)
			defs = append(defs, fmt.Sprintf(`"a%d":{"%s":[%s,%s]}`, i+1, combine, ref, ref))
		}
		return `"$defs":{` + strings.Join(defs, ",") + `}`
	}
	const draft2020 = `{"$schema":"https://json-schema.org/draft/2020-12/schema",`
	for name, text := range map[string]string{
		"all":          `{` + levels("allOf", `"a0":{"type":"object"}`) + `,"$ref":"#/$defs/a40"}`,
		"any, invalid": `{` + levels("anyOf", `"a0":{"type":"string"}`) + `,"$ref":"#/$defs/a40"}`,
		"2020-12":      draft2020 + levels("oneOf", `"a0":{"type":"string"}`) + `,"$ref":"#/$defs/a40"}`,
		"dynamic": draft2020 + `"$id":"https://example.com/a","$ref":"b",` +
			levels("allOf", `"x/y":{"$dynamicAnchor":"x","$ref":"#/$defs/a40"},"a0":{"type":"object"},"b":{"$id":"b","$dynamicRef":"#x","$defs":{"x":{"$dynamicAnchor":"x"}}}`) + `}`,
	} {
		typ := compile(t, schema.Schema{Text: text})
		for range 2 { // the first one does not count for the second
			if _, err := typ.ToJSON([]byte(`{}`)); err == nil ||
				!strings.Contains(err.Error(), "more than 20020 steps") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// An ordinary list is validated, and more steps can be set.
func TestStepsAreConfigured(t *testing.T) {
	t.Parallel()
	list := &schema.Schema{Text: `{"items":{"allOf":[{"type":"integer"},{"minimum":0}]}}`}
	for items, want := range map[int]map[int]string{19_000: {0: ""},
		50_000: {0: "more than 60000 steps", 200_000: ""}} {
		for steps, says := range want {
			typ, err := jsonschema.Format{MaxSteps: steps}.Compile(list)
			if err != nil {
				t.Fatal(err)
			}
			_, err = typ.ToJSON([]byte("[" + strings.Repeat("0,", items-1) + "0]"))
			if (err == nil) != (says == "") || !strings.Contains(fmt.Sprint(err), says) {
				t.Errorf("%d items, %d steps: %v; want %q", items, steps, err, says)
			}
		}
	}
}

// What takes long for one part of a schema counts as several steps: texts and numbers, patterns, and
// comparisons.
func TestWorkWithinAPartIsBounded(t *testing.T) {
	t.Parallel()
	nested := strings.Repeat("[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,", 4000) + "0" +
		strings.Repeat("]", 4000)
	text := `"` + strings.Repeat("a", 1_000_000) + `"`
	for name, tc := range map[string]struct{ schema, value string }{
		"a pattern":                {`{"pattern":"(a?){400}c"}`, text},
		"a pattern of names":       {`{"patternProperties":{"(a?){400}c":{}}}`, `{` + text + `:0}`},
		"a text that is a pattern": {`{"format":"regex"}`, text},
		"a text, many times":       {`{"allOf":[` + strings.Repeat("{},", 999) + `{}]}`, text},
		"large numbers":            {`{"items":{"minimum":0}}`, "[" + strings.Repeat("1e1000,", 9999) + "0]"},
		"lists that are unique":    {`{"uniqueItems":true,"items":{"$ref":"#"}}`, nested},
		"values of an enumeration": {`{"items":{"enum":[1,2,3,4,5,6,7,8,9]}}`,
			"[" + strings.Repeat("0,", 9999) + "0]"},
		"items that are no texts": {`{"allOf":[` + strings.Repeat(`{"items":{"type":"string"}},`, 99) +
			`{}]}`, "[" + strings.Repeat("0,", 9999) + "0]"},
	} {
		_, err := compile(t, schema.Schema{Text: tc.schema}).ToJSON([]byte(tc.value))
		if err == nil || !strings.Contains(err.Error(), "more than 60000 steps") {
			t.Errorf("%s: %.100v", name, err)
		}
	}
}

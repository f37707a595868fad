package jsonschema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/schema"
)

// Numbers that would take long to calculate with are refused before they are validated.
func TestNumbersAreBounded(t *testing.T) {
	t.Parallel()
	typ := compile(t, schema.Schema{Text: `{"items": {"type": "integer"}}`})
	for number, want := range map[string]string{
		"1e1000": "", "1" + strings.Repeat("0", 999): "", "1e1001": "exponent beyond 1000", "1E-1001": "exponent beyond 1000",
		"1e99999999999999999999": "exponent beyond 1000", "1" + strings.Repeat("0", 1000): "1001 characters, the limit is 1000",
	} {
		for _, data := range []string{"[" + number + "]", `[{"a":` + number + `}]`} {
			if _, err := typ.ToJSON([]byte(data)); want != "" && (err == nil || !strings.Contains(err.Error(), want)) || want == "" && data[1] == '1' && err != nil {
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
			if _, err := typ.ToJSON([]byte(`{}`)); err == nil || !strings.Contains(err.Error(), "more than 20020 steps") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	typ := compile(t, schema.Schema{Text: `{"items":{"allOf":[{"type":"integer"},{"minimum":0}]}}`})
	if _, err := typ.ToJSON([]byte("[" + strings.Repeat("0,", 50_000) + "0]")); err != nil {
		t.Errorf("a long list: %v", err)
	}
}

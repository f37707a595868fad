package rawjson_test

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/idemsk/idemsk/internal/rawjson"
)

func TestPartsOfAnObject(t *testing.T) {
	t.Parallel()
	const text = " { \"a\" : [1, {\"b\":\"}\\\"\"}] ,\n\"\\u0062\":\"x\", \"\" :-1e5 } "
	got := make(map[string]string)
	err := rawjson.Parts([]byte(text), func(name string, start, end int) error {
		got[name] = text[start:end]
		return nil
	})
	if want := map[string]string{"a": `[1, {"b":"}\""}]`, "b": `"x"`, "": "-1e5"}; err != nil ||
		!maps.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if n := rawjson.Elements([]byte(text)); n != 6 {
		// two commas and an object, a comma, a list and an object
		t.Errorf("%d elements, want 6", n)
	}
}

// FuzzParts puts a document together from its parts.
func FuzzParts(f *testing.F) {
	for _, text := range []string{`{"a":[1,"\\\""],"b":null}`, ` [ {} , [] , -1.5e3 ] `, `"a"`, `[`, ""} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := rawjson.Check(text); (err == nil) != json.Valid(text) {
			t.Fatalf("%q: %v", text, err)
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(text, &object) != nil || object == nil {
			return
		}
		parts := make(map[string]json.RawMessage)
		err := rawjson.Parts(text, func(name string, start, end int) error {
			parts[name] = text[start:end]
			return nil
		})
		if err != nil || !maps.EqualFunc(parts, object,
			func(a, b json.RawMessage) bool { return string(a) == string(b) }) {
			t.Fatalf("%q has the parts %q, %v; want %q", text, parts, err, object)
		}
	})
}

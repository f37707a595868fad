package kafka_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/idemsk/idemsk/kafka"
)

// hashOf returns the key of a value.
func hashOf(t rapid.TB, value string, paths ...string) (string, error) {
	t.Helper()
	keyOf, err := kafka.ValueHashJSONKey(paths...)
	if err != nil {
		t.Fatal(err)
	}
	return keyOf(context.Background(), &kafka.Record{Value: []byte(value)})
}

// wantCanonical checks that a value's key is the hash of its canonical JSON.
func wantCanonical(t rapid.TB, value, canonical string, paths ...string) {
	t.Helper()
	sum := sha256.Sum256([]byte(canonical))
	if got, err := hashOf(t, value, paths...); err != nil || got != hex.EncodeToString(sum[:]) {
		t.Errorf("the key of %s %q is %s, %v; want the hash of %s", value, paths, got, err, canonical)
	}
}

// The examples of RFC 8785, sections 3.2.2 and 3.2.3, and of its test data.
// https://github.com/cyberphone/json-canonicalization/tree/master/testdata
func TestHashedJSONIsCanonical(t *testing.T) {
	for value, canonical := range map[string]string{
		`{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
		  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false]}`: `{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		`{"\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh", "1": "One",
		  "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control", "\u00f6": "Latin Small Letter O With Diaeresis"}`: `{"\r":"Carriage Return","1":"One","` + "\u0080" + `":"Control","ö":"Latin Small Letter O With Diaeresis","€":"Euro Sign","😀":"Emoji: Grinning Face","` + "\ufb33" + `":"Hebrew Letter Dalet With Dagesh"}`,
		`[56, {"d": true, "10": null, "1": [ ]}]`: `[56,{"1":[],"10":null,"d":true}]`,
		`{"péché": "is wrong according to French", "peach": "This sorting order", "sin": "ignore locale", "pêche": "but canonicalization MUST"}`: `{"peach":"This sorting order","péché":"is wrong according to French","pêche":"but canonicalization MUST","sin":"ignore locale"}`,
		`{"Unnormalized Unicode": "A\u030a"}`: `{"Unnormalized Unicode":"A` + "\u030a" + `"}`,
		`{"1": {"f": {"f": "hi", "F": 5}, "\n": 56.0}, "10": {}, "": "empty", "a": {}, "111": [{"e": "yes", "E": "no"}], "A": {}}`: `{"":"empty","1":{"\n":56,"f":{"F":5,"f":"hi"}},"10":{},"111":[{"E":"no","e":"yes"}],"A":{},"a":{}}`,
		`{"</script>": "\u003c\u0026\u2028\u007f\b\f\t"}`:                                                                          `{"</script>":"<&` + "\u2028\u007f" + `\b\f\t"}`,
		` "text" `:         `"text"`,
		`-0`:               `0`,
		`9007199254740994`: `9007199254740994`,
		`null`:             `null`,
	} {
		wantCanonical(t, value, canonical)
	}
}

// The numbers of RFC 8785, appendix B.
func TestHashedNumbersAreCanonical(t *testing.T) {
	for bits, want := range map[uint64]string{
		0x0000000000000000: "0", 0x8000000000000000: "0", 0x0000000000000001: "5e-324",
		0x8000000000000001: "-5e-324",
		0x7fefffffffffffff: "1.7976931348623157e+308", 0xffefffffffffffff: "-1.7976931348623157e+308",
		0x4340000000000000: "9007199254740992", 0xc340000000000000: "-9007199254740992",
		0x4430000000000000: "295147905179352830000",
		0x44b52d02c7e14af5: "9.999999999999997e+22", 0x44b52d02c7e14af6: "1e+23",
		0x44b52d02c7e14af7: "1.0000000000000001e+23",
		0x444b1ae4d6e2ef4e: "999999999999999700000", 0x444b1ae4d6e2ef4f: "999999999999999900000",
		0x444b1ae4d6e2ef50: "1e+21",
		0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7", 0x3eb0c6f7a0b5ed8d: "0.000001",
		0x41b3de4355555553: "333333333.3333332", 0x41b3de4355555554: "333333333.33333325",
		0x41b3de4355555555: "333333333.3333333",
		0x41b3de4355555556: "333333333.3333334", 0x41b3de4355555557: "333333333.33333343",
		0xbecbf647612f3696: "-0.0000033333333333333333", 0x43143ff3c1cb0959: "1424953923781206.2",
	} {
		wantCanonical(t, strconv.FormatFloat(math.Float64frombits(bits), 'e', -1, 64), want)
	}
}

func TestPartsOfAValueAreHashed(t *testing.T) {
	const value = `{"at":"10:00","amount":5.0,"account":{"no":7,"bank":"b"},"none":null}`
	wantCanonical(t, value, `[5,{"bank":"b","no":7}]`, "$.amount", "$.account")
	wantCanonical(t, value, `[7]`, "$.account.no")
	for _, path := range []string{"$.none", "$.missing"} {
		if got, err := hashOf(t, value, "$.amount", path); !errors.Is(err, kafka.ErrNoKey) {
			t.Errorf("the key with %s is %q, %v; want ErrNoKey", path, got, err)
		}
	}
	if _, err := kafka.ValueHashJSONKey("amount"); err == nil {
		t.Error("a path that is none was taken")
	}
}

// What has no canonical form is no key, because two requests could have the same.
func TestValueWithoutCanonicalJSONHasNoHash(t *testing.T) {
	for value, says := range map[string]string{
		``: "not JSON", `{`: "not JSON", `{} {}`: "after top-level value",
		`{"a":{"b":1,"b":1}}`: "two members of one name",
		`{"a":1,"\u0061":2}`:  "two members of one name", "\"\xff\"": "U+FFFD", `{"\ud800":1}`: "U+FFFD",
		`9007199254740993`: "not exact", `-12345678901234567890`: "not exact",
		`12345678901234567.5`: "not exact", `[1e400]`: "can't be a double",
		strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000): "depth",
	} {
		got, err := hashOf(t, value)
		if err == nil || !strings.Contains(err.Error(), says) || errors.Is(err, kafka.ErrNoKey) {
			t.Errorf("the key of %.40s is %q, %v; want an error with %q", value, got, err, says)
		}
	}
	keyOf, err := kafka.ValueHashJSONKey()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keyOf(t.Context(), &kafka.Record{}); !errors.Is(err, kafka.ErrNoKey) {
		t.Errorf("the key of a tombstone: %v; want ErrNoKey", err)
	}
}

// Two notations of one value have one key, and two values have two.
func TestHashOfJSONDependsOnTheValueOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := drawValue(t, 3)
		one, err := hashOf(t, notation(t, value))
		two, err2 := hashOf(t, notation(t, value))
		if err := errors.Join(err, err2); err != nil || one != two {
			t.Fatalf("%v: two notations of %v have the keys %s and %s", err, value, one, two)
		}
		other, err := hashOf(t, notation(t, map[string]any{"changed": value}))
		if err != nil || other == one {
			t.Fatalf("%v: another value has the same key", err)
		}
	})
}

// drawValue draws a JSON value that nests at most depth levels deep.
func drawValue(t *rapid.T, depth int) any {
	kinds := 4
	if depth > 0 {
		kinds = 6
	}
	switch rapid.IntRange(1, kinds).Draw(t, "kind") {
	case 1:
		return rapid.Float64().Draw(t, "number")
	case 2:
		return strings.ReplaceAll(rapid.String().Draw(t, "text"), "\uFFFD", "")
	case 3:
		return rapid.Bool().Draw(t, "truth")
	case 4:
		return nil
	case 5:
		list := make([]any, rapid.IntRange(0, 3).Draw(t, "length"))
		for i := range list {
			list[i] = drawValue(t, depth-1)
		}
		return list
	}
	object := make(map[string]any)
	for range rapid.IntRange(0, 4).Draw(t, "members") {
		object[strings.ReplaceAll(rapid.String().Draw(t, "name"), "\uFFFD", "")] = drawValue(t, depth-1)
	}
	return object
}

// notation draws a way to write a JSON value.
func notation(t *rapid.T, value any) string {
	space := rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "space")
	var parts []string
	switch v := value.(type) {
	case float64:
		return strconv.FormatFloat(v, byte(rapid.SampledFrom([]rune("eE")).Draw(t, "exponent")), -1, 64)
	case string:
		if rapid.Bool().Draw(t, "escaped") {
			out, err := json.Marshal(v) // escapes more than is necessary
			if err != nil {
				t.Fatal(err)
			}
			return string(out)
		}
		return `"` + escaped(v) + `"`
	case []any:
		for _, element := range v {
			parts = append(parts, notation(t, element))
		}
		return "[" + space + strings.Join(parts, ","+space) + "]"
	case map[string]any:
		for _, name := range rapid.Permutation(slices.Sorted(maps.Keys(v))).Draw(t, "order") {
			parts = append(parts, notation(t, name)+space+":"+notation(t, v[name]))
		}
		return "{" + strings.Join(parts, space+",") + space + "}"
	}
	return fmt.Sprint(map[any]string{nil: "null", true: "true", false: "false"}[value])
}

// escaped writes every character of a text as an escape.
func escaped(text string) string {
	var out strings.Builder
	for _, r := range text {
		if r > 0xffff {
			out.WriteRune(r)
			continue
		}
		fmt.Fprintf(&out, `\u%04x`, r)
	}
	return out.String()
}

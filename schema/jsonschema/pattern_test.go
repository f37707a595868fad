package jsonschema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/schema"
	"github.com/idemsk/idemsk/schema/jsonschema"
)

// Patterns are those of ECMAScript, wherever a schema has them.
func TestPatternsOfECMAScript(t *testing.T) {
	t.Parallel()
	for pattern, texts := range map[string]struct{ valid, invalid string }{
		`^(?=.*[A-Z])(?=.*\d)[A-Za-z\d]{8,}$`: {"Abcdefg1", "abcdefg1"},
		`^(?!.*\.\.)[\w\-\.]+\@bank$`:         {"a.b@bank", "a..b@bank"},
		`(?<=EUR)\d+$`:                        {"EUR12", "USD12"},
		`^(\w)\1$`:                            {"aa", "ab"},
		`^(?<year>\d{4})-\k<year>$`:           {"2026-2026", "2026-2027"},
		`^.{0,4000}$`:                         {strings.Repeat("a", 4000), strings.Repeat("a", 4001)},
		`^\u00e9$`:                            {"é", "e"},
		`^(?=.).$`:                            {"😀", "ab"},
		`^\p{Letter}$`:                        {"ß", "1"},
		`^[^]$`:                               {"\n", ""},
		`^[A-Z]{2}\d{2}$`:                     {"DE07", "DE"},
		`^[^[:]+[:][0-9]+$`:                   {"a:1", "a1"},
		`^[[:]x[:]$`:                          {"[x:", "xx:"},
		`^[[:1]a[:]]$`:                        {":a:]", "a:]"},
		`^(?=)[^[:]+[:]$`:                     {"a:", "[:"},
		`^(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)\10$`: {"abcdefghijj", "abcdefghij\b"},
	} {
		quoted := fmt.Sprintf("%q", pattern)
		for place, shape := range map[string]struct{ schema, value string }{
			"pattern":           {`{"pattern":%s}`, `%q`},
			"patternProperties": {`{"patternProperties":{%s:{}},"additionalProperties":false}`, `{%q:1}`},
			"propertyNames":     {`{"$schema":"https://json-schema.org/draft/2020-12/schema","propertyNames":{"pattern":%s}}`, `{%q:1}`},
		} {
			typ := compile(t, schema.Schema{Text: fmt.Sprintf(shape.schema, quoted)})
			if _, err := typ.ToJSON(fmt.Appendf(nil, shape.value, texts.valid)); err != nil {
				t.Errorf("%s %s: %.20q is refused: %v", place, pattern, texts.valid, err)
			}
			if _, err := typ.ToJSON(fmt.Appendf(nil, shape.value, texts.invalid)); err == nil ||
				!strings.HasPrefix(err.Error(), "it is not valid: ") {
				t.Errorf("%s %s: %.20q: %v", place, pattern, texts.invalid, err)
			}
		}
		typ := compile(t, schema.Schema{Text: `{"format":"regex"}`})
		if _, err := typ.ToJSON([]byte(quoted)); err != nil {
			t.Errorf("%s is no regex: %v", pattern, err)
		}
	}
}

// Both kinds of matching have the classes of ECMAScript: a lookahead that always matches makes a pattern one
// with backtracking.
func TestClassesAreThoseOfECMAScript(t *testing.T) {
	t.Parallel()
	const (
		spaces = "\t\n\v\f\r \u00a0\u1680\u2000\u2005\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
		others = "\x00\x0e!~\u0085\u180e\u200b\u2027\u202e\u2030\u2060\u3001\ufefeß😀\U0010ffff"
		ends   = "\n\r\u2028\u2029"
	)
	for class, texts := range map[string][2]string{ // what it matches, and what it does not
		`\s`:           {spaces, others},
		`\S`:           {others, spaces},
		`[\s]`:         {spaces, others},
		`[^\s]`:        {others, spaces},
		`[\S]`:         {others, spaces},
		`[^\S]`:        {spaces, others},
		`[\s\S]`:       {spaces + others, ""},
		`[a\s.]`:       {spaces + "a.", "b"},
		`[\-\s\]]`:     {spaces + "-]", "b"},
		`.`:            {"\t\v\u00a0\u0085\ufeff" + others, ends},
		`[.]`:          {".", "a"},
		`\.`:           {".", "a"},
		`[^]`:          {spaces + others, ""},
		`(?:[^]]|[]])`: {"", "]"},
		`(?i:é)`:       {"éÉ", "e"},
		`(?s:.)`:       {spaces + others, ""},
	} {
		for _, before := range []string{"", "(?=)"} {
			pattern := "^" + before + class + "$"
			typ := compile(t, schema.Schema{Text: fmt.Sprintf(`{"pattern":%q}`, pattern)})
			for i, text := range texts {
				for _, c := range text {
					value, err := json.Marshal(string(c))
					if err != nil {
						t.Fatal(err)
					}
					if _, err := typ.ToJSON(value); (err == nil) != (i == 0) {
						t.Errorf("%s, %U: %v", pattern, c, err)
					}
				}
			}
		}
	}
}

// What ECMAScript does not have, and the packages of Go would read, is an error of the schema.
func TestPatternsOfOtherLanguagesAreRefused(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{
		`a\Z`, `\Aa`, `a\z`, `\Q.\E`, `\a`, `\C`, `\e`, `\G`, `\h`, `\R`, `\X`, `\x{41}`, `\pL`, `\PL`, `[\pN]`, `[\a]`,
		`[[:alpha:]]`, `[^[:alpha:]]`, `[a[:^digit:]]`, `\\\Z`,
		`(?>a)`, `(?#c)a`, `(?P<n>a)`, `(?P=n)a`, `(?'n'a)`, `(?i)a`, `(?U:a)`, `(?<n-m>a)`, `(?<1>a)`, `(a)?(?(1)b|c)`,
	} {
		for _, before := range []string{"", "(?=)"} {
			text := fmt.Sprintf(`{"pattern":%q}`, before+pattern)
			if _, err := (jsonschema.Format{}).Compile(&schema.Schema{Text: text}); err == nil {
				t.Errorf("%s is compiled", text)
			}
		}
	}
	for pattern, text := range map[string]string{`^\\Z$`: `\Z`, `^[\[:]+$`: `[:`, `^[:a]$`: "a", `^\-\@\_$`: "-@_"} {
		typ := compile(t, schema.Schema{Text: fmt.Sprintf(`{"pattern":%q}`, pattern)})
		if _, err := typ.ToJSON(fmt.Appendf(nil, "%q", text)); err != nil {
			t.Errorf("%s, %s: %v", pattern, text, err)
		}
	}
}

// A text for which a pattern takes exponential time is refused in bounded time. The time of one value is not
// that of the next one.
func TestTimeOfPatternsIsBounded(t *testing.T) {
	t.Parallel()
	hostile := strings.Repeat("a", 60) + "!"
	for name, tc := range map[string]struct{ pattern, value string }{
		"exponential":     {`^(?=a)(a+)+$`, hostile},
		"a reference":     {`^(a*)*\1$`, hostile},
		"a large pattern": {`^(?=a)(a|a|` + strings.Repeat("aa|", 1000) + `b)+$`, hostile},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			typ := compile(t, schema.Schema{Text: `{"items":{"pattern":"` + strings.ReplaceAll(tc.pattern, `\`, `\\`) + `"}}`})
			for range 2 {
				_, err := typ.ToJSON([]byte(`["` + strings.Repeat(tc.value+`","`, 3) + `"]`))
				if err == nil || !strings.Contains(err.Error(), "take longer than 1 s") {
					t.Errorf("%v", err)
				}
			}
			if _, err := typ.ToJSON([]byte(`[1]`)); err != nil {
				t.Error(err)
			}
		})
	}
}

// A pattern that would take long to compile is an error of the schema, and one of a value is not valid.
func TestSizeOfPatternsIsBounded(t *testing.T) {
	t.Parallel()
	for name, pattern := range map[string]string{
		"long":   "(?=a)" + strings.Repeat("a", 5000),
		"nested": "(?=a)" + strings.Repeat("(", 31) + strings.Repeat(")", 31),
		"wrong":  "(?=a",
	} {
		_, err := (jsonschema.Format{}).Compile(&schema.Schema{Text: `{"pattern":"` + pattern + `"}`})
		_, invalid := compile(t, schema.Schema{Text: `{"format":"regex"}`}).ToJSON([]byte(`"` + pattern + `"`))
		if err == nil || invalid == nil || !strings.Contains(invalid.Error(), "does not satisfy format") {
			t.Errorf("%s: %v, %v", name, err, invalid)
		}
	}
}

package esm

import (
	"encoding/json"
	"strings"
	"testing"
)

func criteria(t *testing.T, patterns ...string) string {
	t.Helper()
	type one struct{ Pattern string }
	all := struct{ Filters []one }{}
	for _, p := range patterns {
		all.Filters = append(all.Filters, one{p})
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The rules are those of the table of comparison operators on AWS's page on event filtering, and its note
// below it.
func TestFilterRules(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pattern    string // of the value
		passes     []string
		isDropped  []string
		plainValue bool
	}{
		{pattern: `{"u":[null]}`, passes: []string{`{"u":null}`},
			isDropped: []string{`{"u":""}`, `{}`, `{"u":0}`}},
		{pattern: `{"u":[""]}`, passes: []string{`{"u":""}`}, isDropped: []string{`{"u":null}`, `{"u":" "}`}},
		{pattern: `{"u":["a"]}`, passes: []string{`{"u":"a"}`, `{"u":["b","a"]}`},
			isDropped: []string{`{"u":"A"}`, `{"v":"a"}`, `{"u":{"a":"a"}}`, `{"u":[]}`}},
		{pattern: `{"u":[{"equals-ignore-case":"Alice"}]}`, passes: []string{`{"u":"aLICE"}`},
			isDropped: []string{`{"u":"bob"}`, `{"u":1}`}},
		{pattern: `{"u":["a"],"v":[true]}`, passes: []string{`{"u":"a","v":true}`},
			isDropped: []string{`{"u":"a","v":false}`, `{"u":"a"}`}},
		{pattern: `{"u":["a","b"]}`, passes: []string{`{"u":"a"}`, `{"u":"b"}`},
			isDropped: []string{`{"u":"c"}`}},
		{pattern: `{"$or":[{"u":["a"]},{"v":["b"]}],"w":[1]}`,
			passes:    []string{`{"u":"a","w":1}`, `{"v":"b","w":1}`},
			isDropped: []string{`{"u":"a","w":2}`, `{"u":"b","v":"a","w":1}`}},
		{pattern: `{"u":[{"anything-but":["a",1]}]}`, passes: []string{`{"u":"b"}`, `{"u":2}`, `{"u":1.0}`},
			isDropped: []string{`{"u":"a"}`, `{"u":1}`, `{}`}},
		{pattern: `{"u":[{"anything-but":"a"}]}`, passes: []string{`{"u":"b"}`},
			isDropped: []string{`{"u":"a"}`}},
		{pattern: `{"u":[{"numeric":["=",100]}]}`, passes: []string{`{"u":100}`, `{"u":1e2}`},
			isDropped: []string{`{"u":"100"}`, `{"u":101}`, `{}`}},
		{pattern: `{"u":[{"numeric":[">",10,"<=",20]}]}`, passes: []string{`{"u":20}`, `{"u":10.5}`},
			isDropped: []string{`{"u":10}`, `{"u":21}`}},
		{pattern: `{"u":[{"numeric":["<",0]},{"numeric":[">=",5]}]}`, passes: []string{`{"u":-1}`, `{"u":5}`},
			isDropped: []string{`{"u":0}`}},
		{pattern: `{"u":[300]}`, passes: []string{`{"u":300}`},
			isDropped: []string{`{"u":300.0}`, `{"u":3.0e2}`}},
		{pattern: `{"u":[{"exists":true}]}`, passes: []string{`{"u":null}`, `{"u":1}`},
			isDropped: []string{`{}`, `{"u":{"street":"x"}}`}},
		{pattern: `{"u":[{"exists":false}]}`, passes: []string{`{}`}, isDropped: []string{`{"u":1}`}},
		{pattern: `{"p":{"u":[{"exists":false}]}}`, passes: []string{`{}`, `{"p":{}}`},
			isDropped: []string{`{"p":{"u":1}}`}},
		{pattern: `{"u":[{"prefix":"us-"}]}`, passes: []string{`{"u":"us-east-1"}`},
			isDropped: []string{`{"u":"eu-us-"}`, `{"u":7}`}},
		{pattern: `{"u":[{"suffix":".png"}]}`, passes: []string{`{"u":"a.png"}`},
			isDropped: []string{`{"u":"a.png.txt"}`}},
		{pattern: `{"p":{"u":["a"]}}`, passes: []string{`{"p":{"u":"a"}}`, `{"p":[{"u":"b"},{"u":"a"}]}`},
			isDropped: []string{`{"p":"a"}`, `{"u":"a"}`}},
		{pattern: `[{"anything-but":["error"]}]`, plainValue: true, passes: []string{"ok", `"error"`, "1"},
			isDropped: []string{"error"}},
		{pattern: `["a",{"prefix":"b"}]`, plainValue: true, passes: []string{"a", "bc"},
			isDropped: []string{"c", ""}},
	} {
		all, err := parseFilters(criteria(t, `{"value":`+test.pattern+`}`))
		if err != nil {
			t.Errorf("%s: %v", test.pattern, err)
			continue
		}
		for _, v := range test.passes {
			if !all.pass([]byte(v)) {
				t.Errorf("%s drops %s", test.pattern, v)
			}
		}
		for _, v := range test.isDropped {
			if all.pass([]byte(v)) {
				t.Errorf("%s lets %s pass", test.pattern, v)
			}
		}
		// If the forms of message and rule differ, the rule does not apply.
		for _, v := range [][]byte{nil, []byte("\xff\xfe"),
			[]byte(map[bool]string{true: `{"u":"x"}`, false: "plain"}[test.plainValue])} {
			if !all.pass(v) {
				t.Errorf("%s drops %q, whose form differs", test.pattern, v)
			}
		}
	}
}

func TestFiltersAreAlternatives(t *testing.T) {
	t.Parallel()
	all, err := parseFilters(criteria(t, `{"value":{"u":["a"]}}`, `{"value":{"v":["b"]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if !all.pass([]byte(`{"u":"a"}`)) || !all.pass([]byte(`{"v":"b"}`)) || all.pass([]byte(`{"u":"b"}`)) {
		t.Error("a record passes that one filter lets pass")
	}
	if none, err := parseFilters(""); err != nil || !none.pass([]byte("x")) {
		t.Errorf("no criteria: %v", err)
	}
	if none, err := parseFilters("{}"); err != nil || !none.pass([]byte("x")) {
		t.Errorf("empty criteria: %v", err)
	}
}

func TestInvalidFilterCriteria(t *testing.T) {
	t.Parallel()
	for pattern, says := range map[string]string{
		`{"key":{"a":[1]}}`:                           `only the field "value"`,
		`{"value":{"a":[1]},"x":[1]}`:                 `only the field "value"`,
		`[]`:                                          "not a JSON object",
		`{"value":"a"}`:                               "want an object, or a list",
		`{"value":{}}`:                                "value is empty",
		`{"value":{"a":"b"}}`:                         "value.a is",
		`{"value":{"a":[]}}`:                          "a list with at least one value",
		`{"value":{"a":[[1]]}}`:                       "a list is nested in a list",
		`{"value":{"a":[{"wildcard":"x"}]}}`:          `the operator "wildcard" is not supported`,
		`{"value":{"a":[{"prefix":1}]}}`:              "prefix wants a string",
		`{"value":{"a":[{"exists":"yes"}]}}`:          "exists wants true or false",
		`{"value":{"a":[{"anything-but":[null]}]}}`:   "strings or numbers",
		`{"value":{"a":[{"anything-but":[]}]}}`:       "empty list",
		`{"value":{"a":[{"numeric":[">"]}]}}`:         "one or two comparisons",
		`{"value":{"a":[{"numeric":["<>",1]}]}}`:      "want =, <, <=, > or >=",
		`{"value":{"a":[{"numeric":["<","1"]}]}}`:     "a number behind <",
		`{"value":{"a":[{"prefix":"x","b":1}]}}`:      "must have no other field",
		`{"value":{"$or":{"a":[1]}}}`:                 "want a list of objects",
		`{"value":{"$or":[{"a":[{"prefix":true}]}]}}`: "value.$or[0].a",
	} {
		if _, err := parseFilters(criteria(t, pattern)); err == nil || !strings.Contains(err.Error(), says) ||
			!strings.HasPrefix(err.Error(), "--filter-criteria: Filters[0]") {
			t.Errorf("%s: %v; want an error that names the filter and says %q", pattern, err, says)
		}
	}
	for text, says := range map[string]string{
		`x`: "want {\"Filters\"", `{"value":{"amount":[1]}}`: `unknown field "value"`,
		`{"Filters":[{"pattern":"{}","x":1}]}`:              `unknown field "x"`,
		`{"Filters":[` + strings.Repeat(`{},`, 10) + `{}]}`: "11 filters",
	} {
		if _, err := parseFilters(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want %q", text, err, says)
		}
	}
}

func FuzzFilter(f *testing.F) {
	f.Add(`{"value":{"a":[{"numeric":[">",1]}],"$or":[{"b":[null]}]}}`, `{"a":[2,{"b":3}]}`)
	f.Add(`{"value":[{"anything-but":["x"]}]}`, "x")
	f.Fuzz(func(_ *testing.T, pattern, value string) {
		if one, err := parseFilter(pattern); err == nil {
			filters{one}.pass([]byte(value)) // must not panic
		}
	})
}

package mskevent_test

import (
	"strings"
	"testing"

	"github.com/idemsk/idemsk/internal/mskevent"
)

// isTest reports whether a header is one of those that the tests add.
func isTest(name string) bool { return strings.EqualFold(name, "test-token") }

// Headers take the place of those of the same names, and are added behind the other headers of the record.
// Nothing else of its JSON changes.
func TestWithHeaders(t *testing.T) {
	const added = `{"test-token":[49,-1]},{"b":null}`
	for before, after := range map[string]string{
		`{"offset":1,"headers":[{"a":[1]}] , "value":"\u00e9"}`: `{"offset":1,"headers":[{"a":[1]},` + added +
			`] , "value":"\u00e9"}`,
		`{"headers":[],"offset":1}`:    `{"headers":[` + added + `],"offset":1}`,
		`{"headers": [ ] ,"offset":1}`: `{"headers": [` + added + `] ,"offset":1}`,
		`{ "headers":null,"offset":1}`: `{ "headers":[` + added + `],"offset":1}`,
		`{"offset":1,"x":{"headers":[]}}`: `{"headers":[` + added +
			`],"offset":1,"x":{"headers":[]}}`,
		`{}`: `{"headers":[` + added + `]}`,
		`{"headers":[{"a":[1]}],"headers":[{"b":[2]}]}`: `{"headers":[{"a":[1]}],"headers":[{"b":[2]},` +
			added + `]}`,
		`{"headers":[{"test-token":[57]}]}`: `{"headers":[` + added + `]}`,
		`{"headers":[{"Test-Token":[57]}, {"a":[1]} ,{"TEST\u002dtoken":[57]},{"test-tokens":[2]}]}`: `{"headers":[{"a":[1]},{"test-tokens":[2]},` + added + `]}`,
		`{"headers":[{"test-token":[57],"a":[1],"TEST-TOKEN":[57],"c":[[3]]},{}]}`:                   `{"headers":[{"a":[1],"c":[[3]]},{},` + added + `]}`,
	} {
		r := mskevent.Record{JSON: []byte(before)}
		got, err := r.WithHeaders(isTest, mskevent.Header{Key: "test-token", Value: []byte{'1', 0xff}},
			mskevent.Header{Key: "b"})
		if err != nil || string(got) != after {
			t.Errorf("%s:\ngot  %s, %v\nwant %s", before, got, err, after)
		}
		if string(r.JSON) != before {
			t.Errorf("the record changed: %s", r.JSON)
		}
	}
	for _, bad := range []string{``, `{"a":`, `{"a" 1}`, `5`, ` []`, `{"headers":{}}`, `{"headers":"[]"}`} {
		r := mskevent.Record{JSON: []byte(bad)}
		if _, err := r.WithHeaders(isTest, mskevent.Header{Key: "a"}); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}

// Without headers to add, those of the names are removed, and a record that has none is unchanged.
func TestHeadersAreRemoved(t *testing.T) {
	for before, after := range map[string]string{
		`{"headers":[{"test-token":[57]}],"offset":1}`: `{"headers":[],"offset":1}`,
		`{"headers":[{"a":[1]},{"TEST-token":[57]}]}`:  `{"headers":[{"a":[1]}]}`,
		`{"headers":[ {"a":[1]} , {"b":[2]}]}`:         `{"headers":[ {"a":[1]} , {"b":[2]}]}`,
		`{"offset":1}`:                                 `{"offset":1}`, `{"headers":null}`: `{"headers":null}`,
	} {
		r := mskevent.Record{JSON: []byte(before)}
		if got, err := r.WithHeaders(isTest); err != nil || string(got) != after {
			t.Errorf("%s:\ngot  %s, %v\nwant %s", before, got, err, after)
		}
	}
}

func TestIsKafka(t *testing.T) {
	for payload, want := range map[string]bool{
		`{"eventSource":"aws:kafka","records":{`:           true, // the rest is not read
		`{"records":{},"eventSource":"SelfManagedKafka"}`:  true,
		"\n{ \"eventSource\" : \"aws:SelfManagedKafka\" }": true,
		`{"eventSource":"aws:sqs","Records":[]}`:           false,
		`{"eventSource":1}`:                                false,
		`{"Records":[{"eventSource":"aws:kafka"}]}`:        false,
		`{"detail":{"eventSource":"aws:kafka"},"a":1}`:     false,
		`"eventSource"`: false, ``: false, `[]`: false, `{"eventSource":"aws:kafka`: false,
	} {
		if got := mskevent.IsKafka([]byte(payload)); got != want {
			t.Errorf("%s: %v", payload, got)
		}
	}
}

package mskevent_test

import (
	"testing"

	"github.com/idemsk/idemsk/internal/mskevent"
)

// Headers are added behind those of the record, and nothing else of its JSON changes.
func TestWithHeaders(t *testing.T) {
	const added = `{"idemsk-token":[49,-1]},{"b":null}`
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
	} {
		r := mskevent.Record{JSON: []byte(before)}
		got, err := r.WithHeaders(mskevent.Header{Key: "idemsk-token", Value: []byte{'1', 0xff}},
			mskevent.Header{Key: "b"})
		if err != nil || string(got) != after {
			t.Errorf("%s:\ngot  %s, %v\nwant %s", before, got, err, after)
		}
		if string(r.JSON) != before {
			t.Errorf("the record changed: %s", r.JSON)
		}
	}
	for _, bad := range []string{``, `{"a":`, `{"a" 1}`, `5`, ` []`} {
		r := mskevent.Record{JSON: []byte(bad)}
		if _, err := r.WithHeaders(mskevent.Header{Key: "a"}); err == nil {
			t.Errorf("%s: no error", bad)
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

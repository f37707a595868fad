package runtimeapi

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzParseError reads the error of any function: it has a type and a text, and the bytes that were sent.
func FuzzParseError(f *testing.F) {
	f.Add("Runtime.X", []byte(`{"errorType":"X","errorMessage":"m","stackTrace":["a",{"path":"p","line":1,"label":"l"}],"trace":["b"]}`))
	f.Add("", []byte(`{"errorMessage":"m","stackTrace":{}}`))
	f.Add("", []byte("not json\xff"))
	f.Add("", []byte(`[]`))
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		e := (&api{cfg: new(Config)}).parseError("id", kind, body)
		if e.Type == "" || !utf8.ValidString(e.Message) || string(e.Payload) != string(body) {
			t.Errorf("%q: %+v", body, e)
		}
		var document struct{ ErrorType, ErrorMessage string }
		isNone := json.Unmarshal(body, &document) != nil || document.ErrorType == "" && document.ErrorMessage == ""
		if !isNone && e.Message != document.ErrorMessage || isNone && !strings.HasPrefix(e.Message, "its error is no document") {
			t.Errorf("%q: the message is %q; want that of the document, or that there is none", body, e.Message)
		}
	})
}

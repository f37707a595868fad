package rawjson_test

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/internal/rawjson"
)

func TestErrorsQuoteNoValue(t *testing.T) {
	var into struct {
		Number int8
		Inner  struct{ Text string }
		Time   time.Time
		Quoted int `json:",string"`
		Exact  json.Number
		Addr   netip.Addr
		Map    map[int8]string
	}
	for data, want := range map[string]string{
		`{"Number":4711}`:           "cannot unmarshal number into Go struct field .Number of type int8",
		`{"Number":"4711"}`:         "cannot unmarshal string into Go struct field .Number of type int8",
		`{"Inner":{"Text":4711.5}}`: "cannot unmarshal number into Go struct field .Inner.Text of type string",
		`{"Time":"4711"}`:           "(*time.ParseError)",
		`{"Quoted":"x4711"}`:        "a Go type refuses a part of it",
		`{"Exact":"4711x"}`:         "a Go type refuses a part of it",
		`{"Addr":"4711"}`:           "a Go type refuses a part of it",
		`{"Map":{"4711":""}}`:       "cannot unmarshal number into Go",
		`4711x`:                     "invalid character 'x'",
	} {
		err := rawjson.Unmarshal([]byte(data), &into)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "4711") {
			t.Errorf("%s: %v; want %q", data, err, want)
		}
	}
	if err := rawjson.Unmarshal([]byte(`{"Number":7,"Map":{"4":"x"}}`), &into); err != nil ||
		into.Number != 7 || into.Map[4] != "x" {
		t.Errorf("%+v, %v", into, err)
	}
}

package pgoutbox

import (
	"reflect"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/outbox"
)

// FuzzHeaders writes the headers of an event to their column and reads them again: any bytes, and a null from
// an empty value.
func FuzzHeaders(f *testing.F) {
	f.Add("h", []byte("text"), "b", []byte{0xff, 0})
	f.Add("", []byte{}, "<&>\u2028", []byte(nil))
	f.Fuzz(func(t *testing.T, name string, value []byte, name2 string, value2 []byte) {
		want := []outbox.Header{{Key: strings.ToValidUTF8(name, ""), Value: value},
			{Key: strings.ToValidUTF8(name2, ""), Value: value2}}
		column, err := encodeHeaders(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeHeaders([]byte(*column))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: %q, %v; want %q", *column, got, err, want)
		}
	})
}

// FuzzDecodeHeaders reads any JSON of the column. What is read is written and read the same again.
func FuzzDecodeHeaders(f *testing.F) {
	for _, column := range []string{`[{"key":"h","value":"v"}]`, `[{"key":"h","base64":"/w=="}]`,
		`[{"key":"h"}]`, `[null]`, `null`, `{}`, `[{"key":"h","value":"","base64":""}]`} {
		f.Add([]byte(column))
	}
	f.Fuzz(func(t *testing.T, column []byte) {
		first, err := decodeHeaders(column)
		if err != nil || len(first) == 0 {
			return
		}
		text, err := encodeHeaders(first)
		if err != nil {
			t.Fatal(err)
		}
		second, err := decodeHeaders([]byte(*text))
		if err != nil || !reflect.DeepEqual(first, second) {
			t.Fatalf("%s: %q, %v; want %q", *text, second, err, first)
		}
	})
}

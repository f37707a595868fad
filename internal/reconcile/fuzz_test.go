package reconcile_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/idemsk/idemsk/internal/reconcile"
)

// FuzzReadExport reads any export: each row has a key, and its line is in the file. Keys that encoders of Go
// have written are read as they are.
func FuzzReadExport(f *testing.F) {
	f.Add("id,key\n1,a\n2,\"b\nc\"\n", "key", "a", "b\r\n")
	f.Add("{\"key\":\"a\"}\n\n{\"key\":\"\\ud800\",\"key\":\"b\"}\n", "key", "\x00", "\u2028")
	f.Add("\ufeffkey\na\n", "key", `"`, ",")
	f.Add("{\"key\":null}\n{\"key\":1}\n{}", "key", " a ", "\r")
	f.Fuzz(func(t *testing.T, text, field, one, two string) {
		for _, name := range []string{"export.csv", "export.jsonl"} {
			last := 0
			for row, err := range reconcile.ReadExport(name, strings.NewReader(text), field) {
				if err == nil && (row.Key == "" || row.Line <= last ||
					row.Line > 1+strings.Count(text, "\n")) {
					t.Errorf("%s: %q: %+v after line %d", name, text, row, last)
				}
				last = row.Line
			}
		}
		if one == "" || two == "" || !utf8.ValidString(one) || !utf8.ValidString(two) ||
			strings.Contains(one+two, "\r") {
			// a CSV reader takes \r\n for \n
			return
		}
		var table, lines bytes.Buffer
		w := csv.NewWriter(&table)
		if err := w.WriteAll([][]string{{"other", "key"}, {"x", one}, {"", two}}); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{one, two} {
			if err := json.NewEncoder(&lines).Encode(map[string]string{"key": key}); err != nil {
				t.Fatal(err)
			}
		}
		for name, file := range map[string]*bytes.Buffer{"export.csv": &table, "export.jsonl": &lines} {
			var keys []string
			for row, err := range reconcile.ReadExport(name, file, "key") {
				if err != nil {
					t.Fatal(err)
				}
				keys = append(keys, row.Key)
			}
			if !slices.Equal(keys, []string{one, two}) {
				t.Errorf("%s: %q; want %q and %q", name, keys, one, two)
			}
		}
	})
}

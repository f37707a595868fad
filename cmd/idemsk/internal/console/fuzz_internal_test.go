package console

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
)

// FuzzPerform sends any body. What is done is what a second decoder reads, or nothing is.
func FuzzPerform(f *testing.F) {
	for _, body := range []string{
		`{"action":"redrive","letters":["a","b"]}`,
		`{"action":"delete","key":"k\u0000\ud800","token":9007199254740993}`, `{"action":"x"} {}`,
		`{"Action":"x"}`,
		`{"action":"requeue","events":[{"id":"1","aggregate":"a"}]}`, `null`, `[]`, `{"action":1}`,
		`{"token":1e3}`, "\xff", "",
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		var done []Change
		w := httptest.NewRecorder()
		perform(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body)), maxChange,
			func(_ context.Context, c Change) (string, error) {
				done = append(done, c)
				return "done", nil
			})
		var second Change
		err := json.Unmarshal([]byte(body), &second)
		switch {
		case (w.Code == http.StatusOK) != (len(done) == 1) || w.Code != http.StatusOK &&
			w.Code != http.StatusBadRequest:
			t.Errorf("%q: status %d, done %+v", body, w.Code, done)
		case len(done) == 1 && (err != nil || !reflect.DeepEqual(done[0], second)):
			t.Errorf("%q: done %+v; want %+v, %v", body, done[0], second, err)
		case !json.Valid(w.Body.Bytes()):
			t.Errorf("%q: the answer is %q", body, w.Body)
		}
	})
}

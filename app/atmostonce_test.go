package app

import (
	"io"
	"maps"
	"strings"
	"testing"
)

// At-most-once is refused with each setting under which it could not keep its promise, and the message says
// what to set.
func TestAtMostOnceIsRefusedWithWhatBreaksIt(t *testing.T) {
	for name, tc := range map[string]struct {
		env  map[string]string
		want string
	}{
		"":            {nil, ""},
		"fail open":   {map[string]string{"IDEMSK_STORE_DOWN": "open"}, "want IDEMSK_STORE_DOWN=closed"},
		"unprotected": {map[string]string{"IDEMSK_STORE": "none"}, "want a store"},
	} {
		env := map[string]string{"IDEMSK_EFFECTS": "at-most-once"}
		maps.Copy(env, tc.env)
		vs := vars(env)
		cfg := readConfig(vs)
		got := ""
		if err := vs.Err(); err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") || !cfg.Engine.AtMostOnce {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
		if tc.want != "" && !strings.HasPrefix(got, `IDEMSK_EFFECTS is "at-most-once": want `) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestAtMostOnceIsRefusedWithoutDeadLetters(t *testing.T) {
	v := vars(map[string]string{"IDEMSK_EFFECTS": "at-most-once", "IDEMSK_STORE": "memory"})
	_, err := NewBase(v, readConfig(v), io.Discard).Parts(t.Context(), Handler(returning("", nil)))
	if err == nil || !strings.Contains(err.Error(), "set IDEMSK_DEAD_LETTER_QUEUE_URL or") {
		t.Errorf("%v", err)
	}
}

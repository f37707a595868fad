package main

import (
	"context"
	"errors"
	"testing"
)

// What is deployed is built, and only when nothing else is wrong.
func TestBuildBeforeCheck(t *testing.T) {
	ledger := values{"code": nil, "example": "ledger"}
	failed := errors.New("no Go")
	for name, c := range map[string]struct {
		settings []values
		fails    error
		built    []string
		want     string // the end of the error
	}{
		"code of one's own": {nil, nil, nil, "<nil>"},
		"its outbox": {[]values{withOutbox(t, values{"relayCode": nil})}, failed, []string{"relay-arm64"},
			failed.Error()},
		"the example": {[]values{ledger}, failed, []string{"handler-arm64"}, failed.Error()},
		"another fault": {[]values{ledger, {"batchSize": 20_000}}, nil, nil,
			`batchSize is "20000": want 1 to 10000`},
	} {
		t.Run(name, func(t *testing.T) {
			given := plain(t, c.settings...)
			t.Chdir(t.TempDir())
			s, err := readSettings(given, nil)
			if err != nil {
				t.Fatal(err)
			}
			var built []string
			err = s.buildAndCheck(t.Context(), func(_ context.Context, names []string) error {
				built = names
				return c.fails
			})
			equal(t, "the error", text(err), c.want)
			equal(t, "what is built", built, c.built)
		})
	}
}

package command_test

import (
	"testing"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
)

// A column of failures has the handler's error, also after the last attempt.
func TestFailure(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"permanent: the amount is not positive":                                                 "permanent: the amount is not positive",
		"exhausted: idem: attempts exhausted (attempt 5 of 5): the invoice i-2 has no customer": "exhausted: the invoice i-2 has no customer",
		"exhausted: idem: attempts exhausted: 5 attempts were begun and none settled the key":   "exhausted: idem: attempts exhausted: 5 attempts were begun …",
		"error: \x1b[2J": `error: \x1b[2J`,
	} {
		if got := command.Failure(text); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

package command_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
)

func TestConfirm(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]bool{"y\n": true, "YES\n": true, "yes": true, "n\n": false,
		"\n": false, "": false, "yep\n": false} {
		var asked bytes.Buffer
		ok, err := command.Confirm(t.Context(), command.Streams{In: strings.NewReader(answer), Err: &asked},
			"Sure \x1b?")
		if ok != want || err != nil || asked.String() != `Sure \x1b? [y/N] ` {
			t.Errorf("%q: %v, %v, asked %q", answer, ok, err, asked.String())
		}
	}
}

func TestConfirmIsInterrupted(t *testing.T) {
	t.Parallel()
	in, out := io.Pipe()
	defer out.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if ok, err := command.Confirm(ctx, command.Streams{In: in, Err: io.Discard}, "Sure?"); ok ||
		!errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", ok, err)
	}
}

package redrive_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/redrive"
)

// Letters that are sent keep the rate. Others do not wait, and Ctrl-C ends a wait.
func TestRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		undecoded := letter(4)
		undecoded.Undecoded = []byte("x")
		src := &listSource{bodies: append(bodies(t, letter(1), letter(2), undecoded, letter(1), letter(3)),
			[]byte("hello"))}
		begun := time.Now()
		var at []time.Duration
		o := redrive.Options{Source: src, Destination: &listDestination{}, Rate: 2}
		_, err := redrive.Run(t.Context(), o, func(redrive.Result) { at = append(at, time.Since(begun)) })
		const s = time.Second
		want := []time.Duration{0, s / 2, s, s, s, s}
		for i := range at {
			if err != nil || len(at) != len(want) || at[i] != want[i] {
				t.Fatalf("%v, %v; want %v", at, err, want)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), s/4)
		defer cancel()
		src = &listSource{bodies: bodies(t, letter(1), letter(2))}
		o = redrive.Options{Source: src, Destination: &listDestination{}, Rate: 1}
		_, err = redrive.Run(ctx, o, func(redrive.Result) {})
		if !errors.Is(err, context.DeadlineExceeded) || len(src.done) != 1 || !src.closed {
			t.Errorf("%v, taken out %v", err, src.done)
		}
	})
}

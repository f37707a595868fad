package redrive_test

import (
	"context"
	"testing"

	"github.com/idemsk/idemsk/internal/test/faultproxy"
)

// A silent network ends a run, before a letter is sent, or after it.
func TestTopicOfASilentCluster(t *testing.T) {
	t.Parallel()
	k, c, proxy := dialBehindProxy(t)
	if err := c.CreateTopic(deadLetters, 1, nil); err != nil {
		t.Fatal(err)
	}
	sendLetters(t, c, lettersFrom(2)...)
	silence := func(f faultproxy.Fault) {
		proxy.New(f)
		proxy.Existing(f)
	}
	silence(faultproxy.Silent)
	err := within(t, "to open a topic", func(ctx context.Context) error {
		_, _, err := k.Letters(ctx, deadLetters)
		return err
	})
	if err == nil {
		t.Error("nothing answered, and there is no error")
	}
	proxy.New(faultproxy.None)
	source := openTopic(t, k)
	m, err := source.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	silence(faultproxy.Silent)
	begin := func(ctx context.Context) error { _, err := source.Begin(ctx, m); return err }
	done := func(ctx context.Context) error { return source.Done(ctx, m) }
	for what, f := range map[string]func(ctx context.Context) error{"to begin": begin, "to commit": done} {
		if err := within(t, what, f); err == nil {
			t.Errorf("%s: nothing answered, and there is no error", what)
		}
	}
	proxy.New(faultproxy.None)
	for what, f := range map[string]func(ctx context.Context) error{"to begin": begin, "to commit": done} {
		if err := within(t, what, f); err != nil && what == "to commit" {
			t.Errorf("%s when the network is back: %v", what, err)
		}
	}
	if err := within(t, "to close", source.Close); err != nil {
		t.Error(err)
	}
	wantCommitted(t, c, 1)
}

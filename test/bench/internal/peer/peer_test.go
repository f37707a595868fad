package peer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// function counts the bytes of what it is given.
type function struct{ prepared, err error }

func (f *function) Prepare(context.Context, []byte) error { return f.prepared }

func (f *function) Invoke(ctx context.Context, payload []byte) (int, error) {
	if _, ok := ctx.Deadline(); !ok {
		return 0, errors.New("no deadline, which a function of Lambda's always has")
	}
	return len(payload), f.err
}

func served(t *testing.T, f *function, profile string, lines ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	build := func(context.Context) (Function, error) { return f, nil }
	err := serve(t.Context(), strings.NewReader(strings.Join(lines, "\n")+"\n"), &out, profile, build)
	return out.String(), err
}

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "an event.json")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestEachCommandIsAnswered(t *testing.T) {
	out, err := served(t, new(function), "", "load "+file(t, "12345"), "run", "run", "load "+file(t, "1"),
		"run")
	if want := "{}\n{\"handled\":5}\n{\"handled\":5}\n{}\n{\"handled\":1}\n"; out != want || err != nil {
		t.Errorf("answers: %q, %v; want %q", out, err, want)
	}
}

func TestWhatBreaksEndsThePeer(t *testing.T) {
	broken := errors.New("broken")
	load := "load " + file(t, "1")
	for _, tc := range []struct {
		f     function
		lines []string
		want  string
	}{
		{function{}, []string{"jump"}, `"jump" is neither`},
		{function{}, []string{"load /nowhere/at/all"}, "reading the event"},
		{function{prepared: broken}, []string{load}, "preparing the event: broken"},
		{function{err: broken}, []string{load, "run"}, "the batch was not settled: broken"},
	} {
		if _, err := served(t, &tc.f, "", tc.lines...); err == nil ||
			!strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v; want %q", tc.lines, err, tc.want)
		}
	}
	build := func(context.Context) (Function, error) { return nil, broken }
	if err := serve(t.Context(), strings.NewReader(""), &strings.Builder{}, "", build); !errors.Is(err,
		broken) {
		t.Errorf("a function that can't be built: %v", err)
	}
}

func TestProfilesAreWrittenIfAskedFor(t *testing.T) {
	prefix := filepath.Join(t.TempDir(), "p")
	if _, err := served(t, new(function), prefix, "load "+file(t, "1"), "run", "run"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{prefix + ".cpu.prof", prefix + ".allocs.prof"} {
		if info, err := os.Stat(name); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

package runtimeapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
)

func TestAllLinesPrintedBeforeTheAnswerArriveBeforeInvokeReturns(t *testing.T) {
	t.Parallel()
	cfg := config(t, "lambda")
	var stdout, stderr lines
	cfg.Stdout, cfg.Stderr = stdout.add, stderr.add
	f := start(t, cfg)
	for i := range 300 {
		count := 1 + i%7
		if i%100 == 99 {
			count = 20_000 // more than a pipe holds
		}
		invoke(t, f, fmt.Sprintf(`{"do":"print","count":%d}`, count))
		wantNumbered(t, stdout.take(), "out", count)
		wantNumbered(t, stderr.take(), "err", count)
	}
}

func wantNumbered(t *testing.T, got []string, prefix string, count int) {
	t.Helper()
	if len(got) != count {
		t.Fatalf("%d lines, want %d", len(got), count)
	}
	for i, line := range got {
		if want := fmt.Sprintf("%s %d", prefix, i); line != want {
			t.Fatalf("line %d is %q, want %q", i, line, want)
		}
	}
}

func TestLinesArriveWhileTheFunctionRuns(t *testing.T) {
	t.Parallel()
	cfg := config(t, "lambda")
	var f *runtimeapi.Function
	count := 0
	cfg.Stdout = func([]byte) {
		if count++; count == 20_000 {
			f.Kill()
		}
	}
	f = start(t, cfg)
	text := strings.Repeat("line\n", 20_000) // 100 kB in one write
	if e := fails[*runtimeapi.CrashError](t, f,
		fmt.Sprintf(`{"do":"print raw","text":%q,"count":-1}`, text)); !e.Killed {
		t.Errorf("got %+v", e)
	}
}

func TestAllOutputBeforeATimeoutIsDelivered(t *testing.T) {
	t.Parallel()
	cfg := config(t, "lambda")
	cfg.Timeout = time.Second
	f := start(t, cfg)
	e := fails[*runtimeapi.TimeoutError](t, f, `{"do":"print raw","text":"whole\nunfinished","count":-1}`)
	if want := []string{"whole", "unfinished"}; !slices.Equal(e.Output, want) {
		t.Errorf("output %q, want %q", e.Output, want)
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	const mega = 1 << 20
	long := strings.Repeat("a", 3*mega)
	for name, c := range map[string]struct {
		text         string
		beforeAnswer []string
		atExit       []string
	}{
		"whole":          {"one\ntwo\n", []string{"one", "two"}, nil},
		"empty lines":    {"\n\none\n", []string{"", "", "one"}, nil},
		"no newline":     {"one\ntwo", []string{"one"}, []string{"two"}},
		"nothing":        {"", nil, nil},
		"carriage":       {"one\r\n", []string{"one\r"}, nil},
		"longer a read":  {long[:200_000] + "\nnext\n", []string{long[:200_000], "next"}, nil},
		"one MiB and on": {long[:mega+10] + "\n", []string{long[:mega+10]}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config(t, "lambda")
			var stdout lines
			cfg.Stdout = stdout.add
			f := start(t, cfg)
			event := func(exit int) string {
				return fmt.Sprintf(`{"do":"print raw","text":%q,"count":%d}`, c.text, exit)
			}
			invoke(t, f, event(0))
			got := stdout.take()
			if joined := strings.Join(got, ""); joined != strings.Join(c.beforeAnswer, "") {
				t.Errorf("got %.50q, want %.50q", got, c.beforeAnswer)
			}
			if name != "one MiB and on" && !slices.Equal(got, c.beforeAnswer) {
				t.Errorf("got %.50q, want %.50q", got, c.beforeAnswer)
			}
			f.Close(t.Context())
			if rest := stdout.take(); !slices.Equal(rest, c.atExit) {
				t.Errorf("at exit %.50q, want %.50q", rest, c.atExit)
			}
		})
	}
}

func TestLongLineIsDeliveredInPieces(t *testing.T) {
	t.Parallel()
	cfg := config(t, "lambda")
	var stdout lines
	cfg.Stdout = stdout.add
	f := start(t, cfg)
	text := strings.Repeat("a", 3<<20)
	invoke(t, f, fmt.Sprintf(`{"do":"print raw","text":%q}`, text))
	pieces := stdout.take()
	if len(pieces) < 2 {
		t.Fatalf("%d pieces before the line has ended", len(pieces))
	}
	f.Close(t.Context())
	if joined := strings.Join(append(pieces, stdout.take()...), ""); joined != text {
		t.Errorf("%d bytes in all, want %d", len(joined), len(text))
	}
}

func TestAllOutputBeforeACrashIsDelivered(t *testing.T) {
	t.Parallel()
	cfg := config(t, "lambda")
	var stdout lines
	cfg.Stdout = stdout.add
	f := start(t, cfg)
	text := strings.Repeat("a line\n", 40) + strings.Repeat("b", 600) + "\nlast words"
	e := fails[*runtimeapi.CrashError](t, f, fmt.Sprintf(`{"do":"print raw","text":%q,"count":5}`, text))
	if got := strings.Join(stdout.take(), "\n"); got != text {
		t.Errorf("got %q", got)
	}
	want := append(slices.Repeat([]string{"a line"}, 28), strings.Repeat("b", 500)+"…", "last words")
	if !slices.Equal(e.Output, want) {
		t.Errorf("the error shows %q, want %q", e.Output, want)
	}
}

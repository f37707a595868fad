package subprocess

import (
	"slices"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The lines are given whole, also the last one without its newline, and the environment is what was given.
func TestOutputAndStatus(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]struct {
		lines  []string
		status string
		ok     bool
	}{
		`printf 'a\nb\n\n'; printf '%s' "$NAME" >&2`: {[]string{"a", "b", "", "value"}, "exit status 0",
			true},
		`exit 3`:     {nil, "exit status 3", false},
		`kill -9 $$`: {nil, "signal: killed", false},
	} {
		var lines []string
		p, err := Start([]string{"/bin/sh", "-c", script}, []string{"NAME=value"},
			func(line []byte) { lines = append(lines, string(line)) })
		if err != nil {
			t.Fatal(err)
		}
		<-p.Ended()
		if status, ok := p.Status(); status != want.status || ok != want.ok ||
			!slices.Equal(lines, want.lines) {
			t.Errorf("%s: %q, %s, %t; want %+v", script, lines, status, ok, want)
		}
		p.Signal(syscall.SIGKILL) // no process gets it
	}
}

// A process is paused, continued and ended by signals.
func TestSignals(t *testing.T) {
	t.Parallel()
	ready := make(chan struct{})
	p, err := Start([]string{"/bin/sh", "-c", `trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done`},
		nil, func([]byte) { close(ready) })
	if err != nil {
		t.Fatal(err)
	}
	<-ready
	p.Signal(syscall.SIGSTOP)
	p.Signal(syscall.SIGTERM)
	p.Signal(syscall.SIGCONT)
	<-p.Ended()
	if status, _ := p.Status(); status != "exit status 7" {
		t.Error(status)
	}
}

func TestMissingProgram(t *testing.T) {
	t.Parallel()
	if _, err := Start([]string{"/nonexistent/program"}, nil, nil); err == nil {
		t.Error("no error")
	}
}

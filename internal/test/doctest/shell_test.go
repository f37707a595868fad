//go:build docs

package doctest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Time limits of a command, and of the start and the end of a terminal, on a machine that runs other tests
// too.
const (
	commandTimeout  = 15 * time.Minute
	terminalTimeout = 5 * time.Minute
)

// shell is a bash that executes one command after another, as a reader would type them.
type shell struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan string // of both streams; closed at their end
	dir   string      // of scripts
	n     int         // of commands
}

// mark begins the line with a command's status.
const mark = "doctest-status:"

func newShell(t *testing.T, at place, dir string) *shell {
	t.Helper()
	s := &shell{t: t, cmd: exec.Command("bash", "--noprofile", "--norc"), lines: make(chan string), dir: dir}
	s.cmd.Dir, s.cmd.Env = at.dir, environment(at.env, dir)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	output, input, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd.Stdout, s.cmd.Stderr = input, input
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = input.Close() // the shell and what it starts have it
	go func() {
		defer close(s.lines)
		defer output.Close()
		for text := bufio.NewScanner(output); text.Scan(); {
			s.lines <- text.Text()
		}
	}()
	return s
}

// environment returns the reader's environment without the variables of AWS, LocalStack and idemsk, which the
// documents set.
func environment(reader []string, dir string) []string {
	env := []string{"TMPDIR=" + dir, "TERM=dumb"}
	for _, variable := range reader {
		name, _, _ := strings.Cut(variable, "=")
		ours := strings.HasPrefix(name, "AWS_") || strings.HasPrefix(name, "IDEMSK_") ||
			strings.HasPrefix(name, "LOCALSTACK_")
		if !ours && name != "TMPDIR" && name != "TERM" && name != "BASH_ENV" {
			env = append(env, variable)
		}
	}
	return env
}

// begin starts a command in the shell.
func (s *shell) begin(text string) error {
	s.n++
	path := filepath.Join(s.dir, fmt.Sprintf("command-%d-%d.sh", s.cmd.Process.Pid, s.n))
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.stdin, ". %s </dev/null; printf '%%s%%s\\n' %s $?\n", path, mark)
	return err
}

// read reads lines until the command ends or enough returns true. ended reports which, with the status.
func (s *shell) read(ctx context.Context, enough func(lines []string) bool) (lines []string, status int,
	ended bool, err error) {
	for {
		select {
		case line, ok := <-s.lines:
			if !ok {
				return lines, 0, true, errors.New("the shell has ended")
			}
			before, text, isMark := strings.Cut(line, mark)
			if isMark {
				if before != "" { // what was printed last was no whole line
					lines = append(lines, before)
				}
				status, err = strconv.Atoi(text)
				return lines, status, true, err
			}
			if lines = append(lines, line); enough(lines) {
				return lines, 0, false, nil
			}
		case <-ctx.Done():
			return lines, 0, false, context.Cause(ctx)
		}
	}
}

func never([]string) bool { return false }

// run runs a command until it ends.
func (s *shell) run(text string) (lines []string, err error) {
	ctx, cancel := context.WithTimeoutCause(s.t.Context(), commandTimeout,
		fmt.Errorf("it has not ended after %v", commandTimeout))
	defer cancel()
	if err := s.begin(text); err != nil {
		return nil, err
	}
	lines, status, _, err := s.read(ctx, never)
	if err == nil && status != 0 {
		err = fmt.Errorf("exit status %d", status)
	}
	return lines, err
}

// start starts a command that keeps running, and waits until it has printed the expected lines.
func (s *shell) start(text string, shown []string) (lines []string, err error) {
	ctx, cancel := context.WithTimeoutCause(s.t.Context(), terminalTimeout,
		fmt.Errorf("it has not printed %q after %v", shown, terminalTimeout))
	defer cancel()
	if err := s.begin(text); err != nil {
		return nil, err
	}
	lines, status, ended, err := s.read(ctx, func(lines []string) bool {
		_, err := match(append(shown[:len(shown):len(shown)], "…"), lines)
		return err == nil
	})
	if ended && err == nil {
		err = fmt.Errorf("it ended with status %d", status)
	}
	return lines, err
}

// interrupt sends Ctrl-C. It returns the lines that are printed afterwards.
func (s *shell) interrupt() (lines []string, err error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), terminalTimeout,
		fmt.Errorf("it goes on %v after Ctrl-C", terminalTimeout))
	defer cancel()
	if err := syscall.Kill(-s.cmd.Process.Pid, syscall.SIGINT); err != nil {
		return nil, err
	}
	lines, _, _, err = s.read(ctx, never)
	if err != nil && err.Error() == "the shell has ended" { // with a program that dies of the signal
		err = nil
	}
	return lines, err
}

// close ends the shell and all processes that it has left.
func (s *shell) close() {
	_ = s.stdin.Close()
	over := time.AfterFunc(terminalTimeout, func() { _ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) })
	defer over.Stop()
	for range s.lines { // until what it started has closed its output, too
	}
	_ = s.cmd.Wait()
}

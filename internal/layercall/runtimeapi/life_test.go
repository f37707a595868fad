package runtimeapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
)

// fifo reports whether a process that holds it open for writing is alive: a read ends when no such process is
// left.
type fifo struct {
	path   string
	reader *os.File
}

func newFIFO(t *testing.T) fifo {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = reader.Close() })
	return fifo{path, reader}
}

// waitReleased fails if the fifo was never held, or is still held after ten seconds.
func (f fifo) waitReleased(t *testing.T) {
	t.Helper()
	if err := f.reader.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(f.reader)
	if err != nil || string(got) != "x" {
		t.Errorf("read %q, error %v: a process is still alive, or never was", got, err)
	}
}

func TestCloseLetsTheFunctionFinish(t *testing.T) {
	t.Parallel()
	cfg := config(t, "lambda")
	cfg.Env = append(cfg.Env, termVariable+"=graceful")
	cfg.StopTimeout = time.Minute
	var stdout lines
	cfg.Stdout = stdout.add
	f := start(t, cfg)
	f.Close(context.Background())
	if got := stdout.take(); !slices.Equal(got, []string{"bye"}) {
		t.Errorf("printed %q at SIGTERM", got)
	}
	f.Close(context.Background())
	if _, err := f.Invoke(context.Background(), []byte("{}")); !errors.Is(err, runtimeapi.ErrClosed) {
		t.Errorf("Invoke after Close: %v", err)
	}
	wantStarts(t, f, 1)
}

func TestCloseKillsAFunctionThatIgnoresSIGTERM(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		patience time.Duration
		ctx      func() (context.Context, context.CancelFunc)
	}{
		"when its time is up": {50 * time.Millisecond, func() (context.Context, context.CancelFunc) {
			return context.WithCancel(context.Background())
		}},
		"when the context is done": {time.Hour, func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), 50*time.Millisecond)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config(t, "lambda")
			held := newFIFO(t)
			cfg.Env = append(cfg.Env, termVariable+"=ignore", fifoVariable+"="+held.path)
			cfg.StopTimeout = c.patience
			f := start(t, cfg)
			ctx, cancel := c.ctx()
			defer cancel()
			f.Close(ctx)
			held.waitReleased(t)
		})
	}
}

func TestCloseEndsRunningAndWaitingInvocations(t *testing.T) {
	t.Parallel()
	cfg := config(t, "lambda")
	hanging := make(chan struct{})
	cfg.Stdout = func([]byte) { close(hanging) }
	f := start(t, cfg)
	results := make(chan error)
	for range 3 {
		go func() {
			_, err := f.Invoke(context.Background(), []byte(`{"do":"hang"}`))
			results <- err
		}()
	}
	<-hanging
	f.Close(context.Background())
	for range 3 {
		if err := <-results; !errors.Is(err, runtimeapi.ErrClosed) {
			t.Errorf("error %v, want %v", err, runtimeapi.ErrClosed)
		}
	}
	wantStarts(t, f, 1)
}

func TestCloseDuringALaterStart(t *testing.T) {
	t.Parallel()
	cfg := config(t, "answers and exits")
	// The first process starts. The others find the marker and do not ask for work.
	cfg.Command = []string{"sh", "-c", `if test -e "$0"; then echo stuck; read -r line <"$0"; fi; mkfifo "$0"; exec "$1"`,
		filepath.Join(t.TempDir(), "marker"), cfg.Command[0]}
	stuck := make(chan struct{})
	cfg.Stdout = func([]byte) { close(stuck) }
	f := start(t, cfg)
	invoke(t, f, "{}")
	result := make(chan error)
	go func() {
		_, err := f.Invoke(context.Background(), []byte("{}"))
		result <- err
	}()
	<-stuck
	f.Close(context.Background())
	if err := <-result; !errors.Is(err, runtimeapi.ErrClosed) {
		t.Errorf("error %v, want %v", err, runtimeapi.ErrClosed)
	}
}

func TestCloseEndsTheChildrenOfTheFunctionAndFreesThePort(t *testing.T) {
	t.Parallel()
	cfg := config(t, "lambda")
	f := start(t, cfg)
	environment := string(invoke(t, f, `{"do":"environment"}`).Payload)
	_, address, _ := strings.Cut(environment, "AWS_LAMBDA_RUNTIME_API=")
	address, _, _ = strings.Cut(address, `"`)
	held := newFIFO(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = f.Invoke(context.Background(),
			[]byte(fmt.Sprintf(`{"do":"hang with child","text":%q}`, held.path)))
	}()
	held.waitHeld(t)
	f.Close(context.Background())
	<-ended
	held.waitReleased(t)
	if conn, err := net.Dial("tcp", address); err == nil {
		_ = conn.Close()
		t.Errorf("something listens at %s still", address)
	}
}

// waitHeld returns when a process has opened the fifo. It leaves the data that waitReleased reads.
func (f fifo) waitHeld(t *testing.T) {
	t.Helper()
	conn, err := f.reader.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.reader.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	err = conn.Read(func(fd uintptr) bool {
		n, _ := syscall.Read(int(fd), b[:])
		return n == 1
	})
	if err != nil {
		t.Fatalf("no process opened the FIFO: %v", err)
	}
	writer, err := os.OpenFile(f.path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writer.Write(b[:]); err != nil {
		t.Fatal(err)
	}
	_ = writer.Close()
}

// Not parallel: it counts the open files of the whole test process.
func TestNothingIsLeftOpen(t *testing.T) {
	cfg := config(t, "answers and exits")
	open := func() int {
		entries, err := os.ReadDir("/dev/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	f := start(t, cfg)
	invoke(t, f, "{}")
	before := open()
	for range 20 {
		invoke(t, f, "{}")
	}
	wantStarts(t, f, 21)
	if after := open(); after > before+5 {
		t.Errorf("%d files were open after one process, %d after 20 more", before, after)
	}
	cfg.Command[0] += ".missing"
	for range 20 {
		_ = startFails(t, cfg, nil)
	}
	if after := open(); after > before+5 {
		t.Errorf("%d files were open before, %d after 20 starts that failed", before, after)
	}
}

func TestFunctionEndsWithTheTool(t *testing.T) {
	t.Parallel()
	held := newFIFO(t)
	tool := exec.Command(os.Args[0])
	tool.Env = []string{modeVariable + "=tool", fifoVariable + "=" + held.path}
	stdout, err := tool.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := tool.Start(); err != nil {
		t.Fatal(err)
	}
	ready, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || ready != "ready\n" {
		t.Errorf("the tool said %q, error %v", ready, err)
	}
	if err := tool.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = tool.Wait()
	held.waitReleased(t)
}

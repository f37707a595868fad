package runtimeapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
)

// startFails returns the StartError, which must have the cause and contain all texts.
func startFails(t *testing.T, cfg runtimeapi.Config, cause error, says ...string) *runtimeapi.StartError {
	t.Helper()
	f, err := runtimeapi.Start(context.Background(), cfg)
	if err == nil {
		f.Close(context.Background())
		t.Fatal("it started")
	}
	var e *runtimeapi.StartError
	if !errors.As(err, &e) {
		t.Fatalf("error %T %v, want a StartError", err, err)
	}
	if cause != nil && !errors.Is(err, cause) {
		t.Errorf("error %v, want its cause to be %v", err, cause)
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not say %q", err, text)
		}
	}
	return e
}

func TestStartWithoutAProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct {
		command string
		cause   error
		says    string
	}{
		"not in PATH": {"no-such-bootstrap", exec.ErrNotFound,
			"no-such-bootstrap is not in PATH: install it, or give its path with a slash"},
		"no such file": {filepath.Join(dir, "missing"), fs.ErrNotExist,
			"there is no file " + dir + "/missing: build the function"},
		"directory": {dir, fs.ErrPermission, "is a directory: give the program in it"},
		"not executable": {file("plain", "#!/bin/sh\n", 0o600), fs.ErrPermission,
			"plain is not executable: chmod +x "},
		"other machine": {file("other", "\x7fELF other", 0o700), syscall.ENOEXEC,
			"other is not a program for this machine"},
		"other interpreter": {file("script", "#!/no/such/interpreter\n", 0o700), fs.ErrNotExist,
			"interpreter or dynamic loader that it names is not"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_ = startFails(t, runtimeapi.Config{Command: []string{c.command}, Name: "payments"}, c.cause,
				"function payments", c.says)
		})
	}
}

func TestStartOfAProcessThatExits(t *testing.T) {
	t.Parallel()
	e := startFails(t, config(t, "init exit"), runtimeapi.ErrInitExit,
		"it ended before it asked for work: exit status 3", "fix the error in its output")
	slices.Sort(e.Output) // of two streams
	if want := []string{"IDEMSK_TABLE is empty", "reading configuration"}; !slices.Equal(e.Output, want) {
		t.Errorf("output %q, want %q", e.Output, want)
	}
}

func TestStartOfAProcessThatNeverAsksForWork(t *testing.T) {
	t.Parallel()
	cfg := config(t, "wrong path")
	cfg.InitTimeout = time.Second
	e := startFails(t, cfg, runtimeapi.ErrInitTimeout, "did not ask for work within 1s and was killed",
		"$AWS_LAMBDA_RUNTIME_API/2018-06-01/runtime/invocation/next")
	if want := "GET /2015-03-31/runtime/invocation/next: 404 NotFound"; !strings.HasPrefix(e.Refused, want) {
		t.Errorf("refused %q, want %q", e.Refused, want)
	}
}

func TestStartOfAFunctionThatReportsAnInitError(t *testing.T) {
	t.Parallel()
	for mode, status := range map[string]string{"init error": "202", "init error, twice, and stays": "403"} {
		cfg := config(t, mode)
		cfg.StopTimeout = 500 * time.Millisecond
		e := startFails(t, cfg, nil, "initialization error: ImportError: no module named ledger")
		var reported *runtimeapi.FunctionError
		if !errors.As(e, &reported) || reported.Type != "ImportError" || reported.RequestID != "" {
			t.Errorf("%s: got %+v", mode, e.Err)
		}
		if want := "function payments failed to initialize: ImportError: no module named ledger"; reported.Error() != want {
			t.Errorf("%s: error %q, want %q", mode, reported, want)
		}
		if !slices.Equal(e.Output, []string{status}) {
			t.Errorf("%s: output %q: it was answered otherwise, or not let finish", mode, e.Output)
		}
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	t.Parallel()
	cfg := config(t, "never asks")
	ctx, cancel := context.WithCancelCause(context.Background())
	enough := errors.New("enough")
	cfg.Stderr = func([]byte) { cancel(enough) }
	if _, err := runtimeapi.Start(ctx, cfg); !errors.Is(err, enough) {
		t.Errorf("error %v, want %v", err, enough)
	}
}

func TestLaterProcessThatDoesNotStart(t *testing.T) {
	t.Parallel()
	marker := filepath.Join(t.TempDir(), "marker")
	cfg := config(t, "answers and exits")
	// The first process starts. The others find the marker.
	cfg.Command = []string{"sh", "-c", `if test -e "$0"; then echo again >&2; exit 4; fi; : >"$0"; exec "$1"`,
		marker, cfg.Command[0]}
	f := start(t, cfg)
	invoke(t, f, "{}")
	for range 2 {
		e := fails[*runtimeapi.StartError](t, f, "{}")
		if !errors.Is(e, runtimeapi.ErrInitExit) || !slices.Equal(e.Output, []string{"again"}) {
			t.Errorf("got %+v", e)
		}
	}
	wantStarts(t, f, 3)
	if err := os.Remove(marker); err != nil {
		t.Fatal(err)
	}
	invoke(t, f, "{}")
}

func TestConfigurationErrorNamesAllInvalidFields(t *testing.T) {
	t.Parallel()
	_, err := runtimeapi.Start(t.Context(), runtimeapi.Config{
		Env: []string{"A=1", "no equals sign", "=no key"}, Timeout: time.Millisecond, InitTimeout: -1,
		StopTimeout: -1,
		MemoryMB:    64, Dir: "/no/such/directory", Name: "payments",
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, text := range []string{
		"configuration of function payments", "Command is empty", `Env[1] "no equals sign" is not KEY=VALUE`,
		`Env[2] "=no key"`,
		"Timeout 1ms is not within 1s to 15m0s", "InitTimeout -1ns is negative",
		"StopTimeout -1ns is negative",
		"MemoryMB 64 is not within 128 to 10240", "/no/such/directory",
	} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not say %q", err, text)
		}
	}
	_, err = runtimeapi.Start(t.Context(),
		runtimeapi.Config{Command: []string{"x"}, Timeout: 16 * time.Minute, Dir: os.Args[0]})
	if err == nil || !strings.Contains(err.Error(), "Timeout 16m0s") ||
		!strings.Contains(err.Error(), "is not a directory") {
		t.Errorf("error %v", err)
	}
}

// Not parallel: it changes this process's environment.
func TestEnvironment(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "the developer's own")
	t.Setenv("PATH", "/usr/bin:/bin")
	cfg := config(t, "lambda")
	cfg.Dir, cfg.Region, cfg.Handler = t.TempDir(), "eu-central-1", "app.handler"
	cfg.Env = append(cfg.Env, "IDEMSK_TABLE=keys", "LANG=de_DE.UTF-8", "AWS_LAMBDA_RUNTIME_API=example.com")
	f := start(t, cfg)

	var got []string
	if err := json.Unmarshal(invoke(t, f, `{"do":"environment"}`).Payload, &got); err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	want := []string{
		`AWS_DEFAULT_REGION=eu-central-1`,
		`AWS_LAMBDA_FUNCTION_MEMORY_SIZE=128`,
		`AWS_LAMBDA_FUNCTION_NAME=payments`,
		`AWS_LAMBDA_FUNCTION_VERSION=\$LATEST`,
		`AWS_LAMBDA_INITIALIZATION_TYPE=on-demand`,
		`AWS_LAMBDA_LOG_GROUP_NAME=/aws/lambda/payments`,
		`AWS_LAMBDA_LOG_STREAM_NAME=\d{4}/\d\d/\d\d/\[\$LATEST\][0-9a-f]{32}`,
		`AWS_LAMBDA_RUNTIME_API=127\.0\.0\.1:\d+`,
		`AWS_REGION=eu-central-1`,
		`AWS_XRAY_CONTEXT_MISSING=LOG_ERROR`,
		`GOCOVERDIR=.*`,
		`IDEMSK_TABLE=keys`,
		`LAMBDA_RUNTIME_DIR=` + regexp.QuoteMeta(filepath.Dir(cfg.Command[0])),
		`LAMBDA_TASK_ROOT=` + regexp.QuoteMeta(cfg.Dir),
		`LANG=de_DE\.UTF-8`,
		`PATH=/usr/bin:/bin`,
		modeVariable + `=lambda`,
		`TZ=:UTC`,
		`_HANDLER=app\.handler`,
		`_X_AMZN_TRACE_ID=Root=.*`, // aws-lambda-go's own
	}
	slices.Sort(want)
	if len(got) != len(want) {
		t.Fatalf("%d variables, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for i := range want {
		if !regexp.MustCompile("^" + want[i] + "$").MatchString(got[i]) {
			t.Errorf("got %s, want %s", got[i], want[i])
		}
	}
	if result := invoke(t, f, `{"do":"directory"}`); string(result.Payload) != `"`+cfg.Dir+`"` {
		t.Errorf("working directory %s, want %s", result.Payload, cfg.Dir)
	}
}

// Not parallel: it changes this process's environment and working directory.
func TestStartOfAProgramInAPATHThatIsTheCurrentDirectory(t *testing.T) {
	cfg := config(t, "lambda")
	t.Chdir(filepath.Dir(cfg.Command[0]))
	t.Setenv("PATH", ".")
	cfg.Command[0] = filepath.Base(cfg.Command[0])
	_ = startFails(t, cfg, exec.ErrDot, "give it as ./"+cfg.Command[0])
}

// Not parallel: it changes this process's working directory.
func TestTheProgramIsRelativeToTheCallersDirectory(t *testing.T) {
	cfg := config(t, "lambda")
	t.Chdir(filepath.Dir(cfg.Command[0]))
	cfg.Command[0] = "./" + filepath.Base(cfg.Command[0])
	cfg.Dir = t.TempDir()
	invoke(t, start(t, cfg), `{"do":"echo"}`)
}

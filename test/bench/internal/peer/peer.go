// Package peer is the measured side of the benchmark's protocol, for programs in Go.
//
// A peer reads commands from its standard input, a line each, and answers each with a line of JSON. "load
// FILE" reads an event, and answers {}; "run" delivers it to the function, and answers {"handled":N}, the
// number of records whose handler was called. The driver takes time, CPU and requests between the command and
// its answer. A peer ends with its input.
package peer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"
)

// Function is what a peer measures.
type Function interface {
	// Invoke delivers an event, and returns how many records were handled. An error means that the batch was
	// not settled.
	Invoke(ctx context.Context, payload []byte) (handled int, err error)
}

// Preparer is a Function that does something with an event before it is delivered, which is not measured.
type Preparer interface {
	Prepare(ctx context.Context, payload []byte) error
}

// Closer is a Function that holds processes.
type Closer interface {
	// Close ends them, and waits until they have ended.
	Close(ctx context.Context)
}

// timeout is the longest that a Lambda function may run.
const timeout = 15 * time.Minute

// ProfileVariable names a prefix for the files of a CPU profile and an allocation profile, of every delivery
// from the second one on. Without it nothing is profiled.
const ProfileVariable = "BENCH_PROFILE"

// Main serves a function on the standard streams and ends the process: with status 1 if there is an error.
func Main(build func(ctx context.Context) (Function, error)) {
	if err := serve(context.Background(), os.Stdin, os.Stdout, os.Getenv(ProfileVariable),
		build); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, in io.Reader, out io.Writer, profile string,
	build func(ctx context.Context) (Function, error)) error {
	f, err := build(ctx)
	if err != nil {
		return err
	}
	if c, ok := f.(Closer); ok {
		defer c.Close(ctx)
	}
	s := session{function: f, profiler: profiler{prefix: profile}}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if err := s.command(ctx, lines.Text(), out); err != nil {
			return err
		}
	}
	return errors.Join(lines.Err(), s.profiler.stop())
}

// session is a peer at work.
type session struct {
	function Function
	payload  []byte
	profiler profiler
}

// command performs a command and answers it.
func (s *session) command(ctx context.Context, line string, out io.Writer) error {
	switch command, file, _ := strings.Cut(line, " "); command {
	case "load":
		if err := s.load(ctx, file); err != nil {
			return err
		}
		return answer(out, "{}")
	case "run":
		handled, err := deliver(ctx, s.function, s.payload)
		if err != nil {
			return err
		}
		if err := answer(out, fmt.Sprintf(`{"handled":%d}`, handled)); err != nil {
			return err
		}
		return s.profiler.start()
	default:
		return fmt.Errorf("the command %q is neither load nor run", command)
	}
}

func (s *session) load(ctx context.Context, file string) (err error) {
	if s.payload, err = os.ReadFile(file); err != nil { //nolint:gosec // the driver says which file
		return fmt.Errorf("reading the event: %w", err)
	}
	if p, ok := s.function.(Preparer); ok {
		if err := p.Prepare(ctx, s.payload); err != nil {
			return fmt.Errorf("preparing the event: %w", err)
		}
	}
	return nil
}

func answer(out io.Writer, text string) error {
	if _, err := fmt.Fprintln(out, text); err != nil {
		return fmt.Errorf("answering: %w", err)
	}
	return nil
}

func deliver(ctx context.Context, f Function, payload []byte) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	handled, err := f.Invoke(ctx, payload)
	if err != nil {
		return 0, fmt.Errorf("the batch was not settled: %w", err)
	}
	return handled, nil
}

// profiler profiles all that comes after the first delivery, which is the warm-up.
type profiler struct {
	prefix string
	cpu    *os.File
}

func (p *profiler) start() (err error) {
	if p.prefix == "" || p.cpu != nil {
		return nil
	}
	if p.cpu, err = os.Create(p.prefix + ".cpu.prof"); err != nil {
		return fmt.Errorf("the CPU profile: %w", err)
	}
	return pprof.StartCPUProfile(p.cpu)
}

func (p *profiler) stop() error {
	if p.cpu == nil {
		return nil
	}
	pprof.StopCPUProfile()
	allocations, err := os.Create(p.prefix + ".allocs.prof")
	if err != nil {
		return fmt.Errorf("the allocation profile: %w", err)
	}
	runtime.GC() // so that the profile is complete
	return errors.Join(p.cpu.Close(), pprof.Lookup("allocs").WriteTo(allocations, 0), allocations.Close())
}

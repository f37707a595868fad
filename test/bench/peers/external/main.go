// Program external runs a consumer process in another language beside its Kafka, for the benchmark:
// idemsk-consumer with a handler in that language, or a loop. Its arguments are the command of that process.
// With -service COMMAND it also runs a web service, whose URL the process gets by --http.
//
// Handlers print "handled N" for what they handled. An event has ended when the offsets of its records are
// committed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/idemsk/idemsk/internal/subprocess"
	"github.com/idemsk/idemsk/internal/subprocess/serverproc"
	"github.com/idemsk/idemsk/internal/text/words"
	"github.com/idemsk/idemsk/test/bench/internal/peer"
	"github.com/idemsk/idemsk/test/bench/internal/topic"
)

// external is a program that consumes a topic, with the web service that it may call.
type external struct {
	*topic.Topic
	program, service *subprocess.Process // service is nil if the program has none
	handled          atomic.Int64
}

func main() {
	service := flag.String("service", "", "the command of a web service, whose last argument will be a port")
	flag.Parse()
	peer.Main(func(ctx context.Context) (peer.Function, error) {
		return start(ctx, *service, flag.Args())
	})
}

func start(ctx context.Context, service string, program []string) (_ *external, err error) {
	if len(program) == 0 {
		return nil, errors.New("no program: want its command as arguments")
	}
	e := new(external)
	defer func() {
		if err != nil {
			e.Close(ctx)
		}
	}()
	if e.Topic, err = topic.New(); err != nil {
		return nil, err
	}
	if service != "" {
		port, err := serverproc.FreePort(ctx)
		if err != nil {
			return nil, err
		}
		command, err := words.Split(service)
		if err != nil {
			return nil, fmt.Errorf("-service: %w", err)
		}
		if e.service, err = e.run(append(command, strconv.Itoa(port))); err != nil {
			return nil, err
		}
		program = append(slices.Clone(program), "--http", fmt.Sprintf("http://127.0.0.1:%d/records", port))
	}
	e.program, err = e.run(program)
	return e, err
}

// run starts a command. Both idemsk-consumer and the loops find the topic by its environment. Offsets are
// committed often, because an event ends with a commit.
func (e *external) run(command []string) (*subprocess.Process, error) {
	brokers := strings.Join(e.Brokers, ",")
	env := append(os.Environ(), "BENCH_BROKERS="+brokers, "BENCH_TOPIC="+topic.Name,
		"BENCH_GROUP="+topic.Group, "IDEMSK_KAFKA_BROKERS="+brokers, "IDEMSK_KAFKA_TOPICS="+topic.Name,
		"IDEMSK_KAFKA_GROUP="+topic.Group, "IDEMSK_COMMIT_INTERVAL=10ms")
	return subprocess.Start(command, env, e.line)
}

// line takes a line that a process prints: what was handled, or a message.
func (e *external) line(line []byte) {
	var n int64
	if _, err := fmt.Sscanf(string(line), "handled %d", &n); err == nil {
		e.handled.Add(n)
		return
	}
	fmt.Fprintf(os.Stderr, "%s\n", line)
}

// Invoke implements peer.Function: it produces the records of the event, and returns when all offsets are
// committed.
func (e *external) Invoke(ctx context.Context, _ []byte) (int, error) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	e.handled.Store(0)
	if _, err := e.Produce(ctx); err != nil {
		return 0, err
	}
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for e.Uncommitted() > 0 {
		select {
		case <-look.C:
		case <-e.program.Ended():
			status, _ := e.program.Status()
			return 0, fmt.Errorf("the program has ended (%s): its messages are above", status)
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return int(e.handled.Load()), nil
}

// Close implements peer.Closer.
func (e *external) Close(context.Context) {
	for _, p := range []*subprocess.Process{e.program, e.service} {
		if p != nil {
			p.Signal(syscall.SIGKILL)
			<-p.Ended()
		}
	}
}

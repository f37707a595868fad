package runtimeapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
	"github.com/idemsk/idemsk/internal/test/faultproxy"
)

// This file has the functions that the tests run, those of clients_test.go apart. It is executed in the child
// process.

// Variables of the child.
const (
	fifoVariable = "RUNTIMEAPI_TEST_FIFO" // held open by the process that is told so
	termVariable = "RUNTIMEAPI_TEST_TERM" // what a lambda does on SIGTERM: graceful, ignore
)

func runChild(mode string) {
	// The process ends soon even if the code under test is broken.
	time.AfterFunc(5*time.Minute, func() { panic("this test function lives too long") })
	switch mode {
	case "lambda":
		atSIGTERM()
		holdFIFO()
		lambda.Start(handle)
	case "lambda in a network that falls silent":
		proxy := faultproxy.Start(childTB{}, os.Getenv("AWS_LAMBDA_RUNTIME_API"))
		must(0, os.Setenv("AWS_LAMBDA_RUNTIME_API", proxy.Addr()))
		lambda.Start(func(_ context.Context, e event) (string, error) {
			if e.Do == "fall silent" {
				proxy.Existing(faultproxy.Silent)
				proxy.New(faultproxy.Silent)
			}
			return e.Do, nil
		})
	case "hold":
		holdFIFO()
		fmt.Println("held")
		forever()
	case "tool":
		runTool()
	case "init exit":
		fmt.Println("reading configuration")
		fmt.Fprintln(os.Stderr, "IDEMSK_TABLE is empty")
		os.Exit(3)
	case "never asks":
		fmt.Fprintln(os.Stderr, "waiting for Godot")
		forever()
	default:
		client, found := clients[mode]
		if !found {
			panic("no such mode: " + mode)
		}
		client(runtime{})
	}
}

// childTB is a testing.TB for helpers in a process that is not a test.
type childTB struct{ testing.TB }

func (childTB) Helper()                   {}
func (childTB) Cleanup(func())            {}
func (childTB) Errorf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }

func forever() { <-make(chan struct{}) }

func holdFIFO() {
	if path := os.Getenv(fifoVariable); path != "" {
		fifo := must(os.OpenFile(path, os.O_WRONLY, 0))
		must(fifo.WriteString("x")) // it is held from here on
	}
}

func atSIGTERM() {
	switch os.Getenv(termVariable) {
	case "graceful":
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM)
		go func() {
			<-signals
			fmt.Println("bye")
			os.Exit(0)
		}()
	case "ignore":
		signal.Ignore(syscall.SIGTERM)
	}
}

// runTool runs a function, as a tool that is killed.
func runTool() {
	cfg := runtimeapi.Config{
		Command: []string{os.Args[0]},
		Env: []string{modeVariable + "=does not mind the end of the API",
			fifoVariable + "=" + os.Getenv(fifoVariable)},
	}
	must(runtimeapi.Start(context.Background(), cfg))
	fmt.Println("ready")
	forever()
}

type event struct {
	Do    string `json:"do"`
	Count int    `json:"count"`
	Text  string `json:"text"`
}

type PaymentError struct{ account string }

func (e *PaymentError) Error() string { return "account " + e.account + " is closed" }

// meeting is where the invocations of a process wait for each other.
var meeting = meet{all: make(chan struct{})} //nolint:gochecknoglobals // of the child

type meet struct {
	mu   sync.Mutex
	here int
	all  chan struct{} // closed when all are here
}

// join waits until n invocations are here.
func (m *meet) join(n int) {
	m.mu.Lock()
	all := m.all
	if m.here++; m.here == n {
		m.here, m.all = 0, make(chan struct{})
		close(all)
	}
	m.mu.Unlock()
	<-all
}

// handle is the handler of a real Go Lambda function.
func handle(ctx context.Context, raw json.RawMessage) (any, error) {
	var e event
	if err := json.Unmarshal(raw, &e); err != nil {
		return nil, err
	}
	switch e.Do {
	case "echo":
		return raw, nil
	case "context":
		lc, _ := lambdacontext.FromContext(ctx)
		deadline, _ := ctx.Deadline()
		return map[string]any{
			"id": lc.AwsRequestID, "arn": lc.InvokedFunctionArn, "deadline": deadline.UnixMilli(),
			"trace": os.Getenv("_X_AMZN_TRACE_ID"), "memory": lambdacontext.MemoryLimitInMB,
		}, nil
	case "environment":
		return os.Environ(), nil
	case "directory":
		return os.Getwd()
	case "error":
		return nil, errors.New(e.Text)
	case "typed error":
		return nil, &PaymentError{"4711"}
	case "panic":
		panic(e.Text)
	case "exit":
		fmt.Fprintln(os.Stderr, "out of luck")
		os.Exit(e.Count)
	case "hang":
		fmt.Println("hanging")
		forever()
	case "meet":
		meeting.join(e.Count)
		return e.Text, nil
	case "meet and exit":
		meeting.join(e.Count)
		os.Exit(3)
	case "hang with child":
		grandchild := exec.Command(os.Args[0])
		grandchild.Env = []string{modeVariable + "=hold", fifoVariable + "=" + e.Text}
		grandchild.Stdout = os.Stdout // so the pipe stays open if it lives on
		must(0, grandchild.Start())
		forever()
	case "exit and leave a child":
		grandchild := exec.Command(os.Args[0])
		grandchild.Env = []string{modeVariable + "=hold", fifoVariable + "=" + e.Text}
		held := must(grandchild.StdoutPipe())
		must(0, grandchild.Start())
		must(bufio.NewReader(held).ReadString('\n'))
		os.Exit(6)
	case "pid":
		return os.Getpid(), nil
	case "answer of size":
		return strings.Repeat("a", e.Count-len(`""`)), nil
	case "stream that fails":
		return io.MultiReader(strings.NewReader("the first part"), failingReader{e.Text}), nil
	case "print":
		for i := range e.Count {
			fmt.Printf("out %d\n", i)
			fmt.Fprintf(os.Stderr, "err %d\n", i)
		}
		return nil, nil
	case "print raw":
		if e.Count < 0 {
			enlargeStdout()
		}
		must(os.Stdout.WriteString(e.Text))
		if e.Count < 0 {
			forever()
		}
		if e.Count > 0 {
			os.Exit(e.Count)
		}
		return nil, nil
	}
	return nil, fmt.Errorf("unknown event %s", raw)
}

// enlargeStdout makes the pipe larger than one read, where the system supports it (Linux).
func enlargeStdout() {
	const setPipeSize = 1031 // F_SETPIPE_SZ
	_, _, _ = syscall.Syscall(syscall.SYS_FCNTL, os.Stdout.Fd(), setPipeSize, 1<<20)
}

type failingReader struct{ message string }

func (r failingReader) Read([]byte) (int, error) { return 0, errors.New(r.message) }

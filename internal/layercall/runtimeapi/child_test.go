package runtimeapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
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

// This file has the functions that the tests run. It is executed in the child process.

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

// clients are functions with their own HTTP clients, some of them incorrect.
var clients = map[string]func(runtime){
	"wrong path": func(r runtime) {
		r.get("/2015-03-31/runtime/invocation/next")
		forever()
	},
	"init error": func(r runtime) {
		fmt.Println(r.post("/2018-06-01/runtime/init/error",
			`{"errorType":"ImportError","errorMessage":"no module named ledger"}`))
		os.Exit(1)
	},
	"init error, twice, and stays": func(r runtime) {
		r.post("/2018-06-01/runtime/init/error",
			`{"errorType":"ImportError","errorMessage":"no module named ledger"}`)
		fmt.Println(r.post("/2018-06-01/runtime/init/error",
			`{"errorType":"Second","errorMessage":"second"}`))
		forever()
	},
	"breaks every rule": breaksEveryRule,
	"answers early":     answersEarly,
	"does not mind the end of the API": func(r runtime) {
		holdFIFO()
		conn := must(net.Dial("tcp", r.address()))
		must(io.WriteString(conn, "GET /2018-06-01/runtime/invocation/next HTTP/1.1\r\nHost: x\r\n\r\n"))
		forever()
	},
	"stream with a trailer that is no base64": func(r runtime) {
		id, _ := r.next()
		request := must(http.NewRequest(http.MethodPost, "http://"+r.address()+r.answer(id),
			io.MultiReader(strings.NewReader("part"))))
		request.Trailer = http.Header{
			"Lambda-Runtime-Function-Error-Type": {"Function.Odd"},
			"Lambda-Runtime-Function-Error-Body": {"no base64"},
		}
		response, err := http.DefaultClient.Do(request)
		must(0, err)
		defer response.Body.Close()
		wantStatus(http.StatusAccepted, response.StatusCode)
		forever()
	},
	"plain": func(r runtime) { // answers with the event, chunked or by length as the event says
		for {
			id, body := r.next()
			var reader io.Reader = bytes.NewReader(body)
			if bytes.Contains(body, []byte("chunked")) {
				reader = io.MultiReader(reader) // hides the length
			}
			wantStatus(http.StatusAccepted, r.do(http.MethodPost, r.answer(id), reader, nil))
		}
	},
	"error as told": func(r runtime) { // the event is [header, body] of the error
		for {
			id, body := r.next()
			var told [2]string
			must(0, json.Unmarshal(body, &told))
			header := http.Header{"Lambda-Runtime-Function-Error-Type": {told[0]}}
			status := r.do(http.MethodPost, "/2018-06-01/runtime/invocation/"+id+"/error",
				strings.NewReader(told[1]), header)
			wantStatus(http.StatusAccepted, status)
		}
	},
	"error with the largest cause": func(r runtime) {
		id, _ := r.next()
		header := http.Header{"Lambda-Runtime-Function-Xray-Error-Cause": {strings.Repeat("x", 1<<20-1)}}
		path := "/2018-06-01/runtime/invocation/" + id + "/error"
		wantStatus(http.StatusAccepted, r.do(http.MethodPost, path, strings.NewReader(`{"errorType":"t"}`),
			header))
		forever()
	},
	"bad response mode": func(r runtime) {
		id, _ := r.next()
		header := http.Header{"Lambda-Runtime-Function-Response-Mode": {"telepathic"}}
		wantStatus(http.StatusBadRequest, r.do(http.MethodPost, r.answer(id), strings.NewReader("1"), header))
		forever()
	},
	"too large, then small": func(r runtime) {
		id, _ := r.next()
		large := bytes.NewReader(make([]byte, runtimeapi.MaxResponse+1))
		wantStatus(http.StatusRequestEntityTooLarge, r.do(http.MethodPost, r.answer(id), large, nil))
		wantStatus(http.StatusBadRequest, r.post(r.answer(id), "small")) // that was its answer
		id, _ = r.next()
		r.post(r.answer(id), "small")
		forever()
	},
	"truncated answer": func(r runtime) {
		id, _ := r.next()
		conn := must(net.Dial("tcp", r.address())).(*net.TCPConn)
		must(fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nonly this",
			r.answer(id)))
		must(0, conn.CloseWrite())
		response := must(http.ReadResponse(bufio.NewReader(conn), nil))
		wantStatus(http.StatusBadRequest, response.StatusCode)
		os.Exit(9)
	},
	"takes the event and does not read it": func(r runtime) {
		conn := must(net.Dial("tcp", r.address()))
		must(io.WriteString(conn, "GET /2018-06-01/runtime/invocation/next HTTP/1.1\r\nHost: x\r\n\r\n"))
		head := bufio.NewReaderSize(conn, 16)
		for !strings.HasPrefix(must(head.ReadString('\n')), "Lambda-Runtime-Aws-Request-Id: ") {
		}
		forever()
	},
	"answers and never asks again": func(r runtime) {
		id, _ := r.next()
		r.post(r.answer(id), "once")
		forever()
	},
	"answers and exits": func(r runtime) {
		id, _ := r.next()
		r.post(r.answer(id), "once")
		os.Exit(7)
	},
	"hangs up and asks again": func(r runtime) {
		conn := must(net.Dial("tcp", r.address())).(*net.TCPConn)
		must(io.WriteString(conn, "GET /2018-06-01/runtime/invocation/next HTTP/1.1\r\nHost: x\r\n\r\n"))
		must(0, conn.CloseWrite())
		must(io.ReadAll(conn)) // the server has seen it
		fmt.Println("hung up")
		id, body := r.next()
		r.post(r.answer(id), string(body))
		forever()
	},
}

func breaksEveryRule(r runtime) {
	early := r.post(r.answer("8476a536-e9f4-11e8-9739-2dfe598c3fcd"), "too early")
	id, _ := r.next()
	statuses := map[string]int{
		"answer before the first event": early,
		"next before the answer":        r.get("/2018-06-01/runtime/invocation/next"),
		"answer to another request":     r.post(r.answer("8476a536-e9f4-11e8-9739-2dfe598c3fcd"), "1"),
		"error of another request":      r.post("/2018-06-01/runtime/invocation/none/error", "{}"),
		"init error after init":         r.post("/2018-06-01/runtime/init/error", "{}"),
		"path that does not exist":      r.get("/2018-06-01/runtime/invocation/last"),
		"version that does not exist":   r.get("/2017-06-01/runtime/invocation/next"),
		"wrong method":                  r.post("/2018-06-01/runtime/invocation/next", ""),
		"extension":                     r.post("/2020-01-01/extension/register", "{}"),
	}
	wantStatus(http.StatusAccepted, r.post(r.answer(id), string(must(json.Marshal(statuses)))))
	second := r.post(r.answer(id), "second answer")
	id, _ = r.next()
	r.post(r.answer(id), fmt.Sprint(second))
	r.next()
	os.Exit(8)
}

// answersEarly answers before it has read its event, and reports in the next answer whether the event was
// complete.
func answersEarly(r runtime) {
	conn := must(net.Dial("tcp", r.address())).(*net.TCPConn)
	must(0, conn.SetReadBuffer(256<<10)) // so that the event does not fit into the kernel
	must(io.WriteString(conn, "GET /2018-06-01/runtime/invocation/next HTTP/1.1\r\nHost: x\r\n\r\n"))
	reader := bufio.NewReaderSize(conn, 16)
	id := ""
	for id == "" {
		_, id, _ = strings.Cut(must(reader.ReadString('\n')), "Lambda-Runtime-Aws-Request-Id: ")
	}
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		r.post(r.answer(strings.TrimSpace(id)), "early")
	}()
	next := ""
	select {
	case <-accepted: // wrongly: now the caller may have done with the event what it likes
		next, _ = r.next()
	case <-time.After(300 * time.Millisecond):
	}
	for must(reader.ReadString('\n')) != "\r\n" {
	}
	event := make([]byte, runtimeapi.MaxPayload)
	must(io.ReadFull(reader, event))
	<-accepted
	if next == "" {
		next, _ = r.next()
	}
	r.post(r.answer(next), fmt.Sprint(bytes.Count(event, []byte("a"))))
	forever()
}

// runtime is a client of the Runtime API that may violate its rules.
type runtime struct{}

func (runtime) address() string { return os.Getenv("AWS_LAMBDA_RUNTIME_API") }

func (runtime) answer(id string) string { return "/2018-06-01/runtime/invocation/" + id + "/response" }

func (r runtime) next() (id string, body []byte) {
	response, err := http.Get("http://" + r.address() + "/2018-06-01/runtime/invocation/next")
	must(0, err)
	defer response.Body.Close()
	body = must(io.ReadAll(response.Body))
	wantStatus(http.StatusOK, response.StatusCode)
	return response.Header.Get("Lambda-Runtime-Aws-Request-Id"), body
}

func (r runtime) get(path string) int { return r.do(http.MethodGet, path, nil, nil) }

func (r runtime) post(path, body string) int {
	return r.do(http.MethodPost, path, strings.NewReader(body), nil)
}

func (r runtime) do(method, path string, body io.Reader, header http.Header) int {
	request := must(http.NewRequest(method, "http://"+r.address()+path, body))
	for key, values := range header {
		request.Header[key] = slices.Clone(values)
	}
	response, err := http.DefaultClient.Do(request)
	must(0, err)
	defer response.Body.Close()
	must(io.Copy(io.Discard, response.Body))
	return response.StatusCode
}

func wantStatus(want, got int) {
	if got != want {
		panic(fmt.Sprintf("got status %d, want %d", got, want))
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

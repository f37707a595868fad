package layerproxy_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"
)

// This file is the function behind the layer: what happens in it happens in the runtime's process.

// eventsVariable names the file of the received events.
const eventsVariable = "LAYER_TEST_EVENTS"

// The modes of a runtime that asks for several invocations at once: as many as AWS_LAMBDA_MAX_CONCURRENCY.
const (
	inThreads   = "in threads"
	inProcesses = "in processes"
)

// meeting is where two invocations of a process wait for each other.
var meeting sync.WaitGroup

// memoryEvent is an event to which the function answers with the status of the layer's process, as Linux
// tells it.
const memoryEvent = `"the memory of the layer"`

// delivery is a received event, with the headers of the Runtime API.
type delivery struct {
	Header  http.Header
	Payload []byte
}

// record is a record of an event, as a function reads it.
type record struct {
	partition string
	offset    int64
	message   string // the ID of a message of SQS, which has no partition
	key, do   string
	headers   map[string]string
}

// identifier is the record's itemIdentifier in an answer.
func (r *record) identifier() any {
	if r.message != "" {
		return r.message
	}
	return map[string]any{"partition": r.partition, "offset": r.offset}
}

func recordsOf(payload []byte) (records []record) {
	var event struct {
		Records map[string][]struct {
			Offset     int64
			Key, Value []byte
			Headers    []map[string][]int8
		}
	}
	_ = json.Unmarshal(payload, &event) // another event has no records
	for _, id := range slices.Sorted(maps.Keys(event.Records)) {
		for _, r := range event.Records[id] {
			headers := make(map[string]string)
			for _, header := range r.Headers {
				for name, value := range header {
					for _, b := range value {
						headers[name] += string(rune(b))
					}
				}
			}
			records = append(records, record{partition: id, offset: r.Offset, key: string(r.Key),
				do: string(r.Value), headers: headers})
		}
	}
	return append(records, messagesOf(payload)...)
}

// runFunction runs a function in a mode: how it starts. What it does with an event is in the event's records.
func runFunction(mode string) {
	time.AfterFunc(5*time.Minute, func() { panic("this test function lives too long") })
	meeting.Add(2)
	switch mode {
	case "reports an init error":
		post("init/error", nil, []byte(`{"errorType":"ImportError","errorMessage":"no module named ledger"}`))
		os.Exit(1)
	case "exits in init":
		os.Exit(9)
	case "hangs in init":
		<-make(chan struct{})
	case "ends on SIGTERM":
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM)
		go func() {
			<-signals
			fmt.Println("bye")
			os.Exit(0)
		}()
	case inThreads:
		for range lambdacontext.MaxConcurrency() - 1 {
			go work()
		}
	case inProcesses:
		startWorkers()
		return
	}
	work()
}

// startWorkers starts a process for each invocation that there may be at once, and waits for all, as AWS's
// client for Python does.
func startWorkers() {
	var all sync.WaitGroup
	for range lambdacontext.MaxConcurrency() {
		worker := exec.Command(os.Args[0], asFunction, "")
		worker.Stdout, worker.Stderr = os.Stdout, os.Stderr
		worker.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		all.Go(func() {
			runtime.LockOSThread() // the worker is killed when the thread that started it ends
			_ = worker.Run()       // it may be told to die
		})
	}
	all.Wait()
}

// work is the loop of a runtime.
func work() {
	for {
		d, status := next()
		if status != http.StatusOK {
			os.Exit(status / 100) // as runtimes do
		}
		handle(d)
	}
}

func address() string {
	return "http://" + os.Getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/"
}

func next() (delivery, int) {
	resp, err := http.Get(address() + "invocation/next")
	check(err)
	defer resp.Body.Close()
	payload, err := io.ReadAll(resp.Body)
	check(err)
	d := delivery{resp.Header, payload}
	if resp.StatusCode == http.StatusOK {
		line, err := json.Marshal(d)
		check(err)
		file, err := os.OpenFile(os.Getenv(eventsVariable), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		check(err)
		_, err = file.Write(append(line, '\n'))
		check(err)
		check(file.Close())
		fmt.Println("called")
	}
	return d, resp.StatusCode
}

func (d *delivery) id() string { return d.Header.Get("Lambda-Runtime-Aws-Request-Id") }

func post(path string, header http.Header, body []byte) int {
	req, err := http.NewRequest(http.MethodPost, address()+path, bytes.NewReader(body))
	check(err)
	maps.Copy(req.Header, header)
	resp, err := http.DefaultClient.Do(req)
	check(err)
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	check(err)
	return resp.StatusCode
}

func (d *delivery) answer(body []byte) int { return post("invocation/"+d.id()+"/response", nil, body) }

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// handle answers an event as its records tell.
func handle(d delivery) {
	records := recordsOf(d.Payload)
	answer := answerTo(records)
	do := func(what string) bool {
		return slices.ContainsFunc(records, func(r record) bool { return r.do == what })
	}
	switch {
	case strings.Contains(string(d.Payload), "stream"):
		var failure string
		if bytes.Contains(d.Payload, []byte("fails")) {
			failure = `{"errorMessage":"in the middle"}`
		}
		stream(d, d.Payload, "Function.Broken", failure)
	case string(d.Payload) == memoryEvent:
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", os.Getppid()))
		check(err)
		d.answer(status)
	case records == nil: // an event that is not from Kafka
		d.answer(d.Payload)
	case do("exit"):
		os.Exit(3)
	case do("kill"):
		check(syscall.Kill(os.Getpid(), syscall.SIGKILL))
	case do("kill the layer"):
		check(syscall.Kill(os.Getppid(), syscall.SIGKILL))
		<-make(chan struct{})
	case do("fork and exit"):
		fork()
		os.Exit(4)
	case do("hang"):
		<-make(chan struct{})
	case do("meet"):
		meeting.Done()
		meeting.Wait()
		d.answer(answer)
	case do("meet and hang"):
		meeting.Done()
		<-make(chan struct{})
	case do("meet and exit"):
		meeting.Done()
		meeting.Wait()
		os.Exit(3)
	case do("wait"):
		_, err := os.ReadFile(os.Getenv(eventsVariable) + ".fifo") // until the test has written to it
		check(err)
		d.answer(answer)
	case do("answer nothing"):
		_, status := next()
		fmt.Println("next:", status)
		os.Exit(5)
	case raised(records) != nil:
		post("invocation/"+d.id()+"/error", nil, raised(records))
	case do("report an error and exit"), do("report an error, fork and exit"):
		if do("report an error, fork and exit") {
			fork()
		}
		post("invocation/"+d.id()+"/error", nil, []byte(`{"errorType":"Runtime.UnhandledPromiseRejection","errorMessage":"no log"}`))
		os.Exit(128)
	case do("raise"):
		post("invocation/"+d.id()+"/error", nil,
			[]byte(`{"errorType":"ValueError","errorMessage":"no such account","stackTrace":[]}`))
	case do("stream an outage"):
		stream(d, answer, "Unhandled", `{"errorType":"UnavailableError","errorMessage":"the bank is down: retry after 1h"}`)
	case do("stream an outage, named in the header"):
		stream(d, answer, "UnavailableError", `{"errorMessage":"the bank is down: retry after 1h"}`)
	case do("report an outage, named in the header"):
		post("invocation/"+d.id()+"/error", http.Header{"Lambda-Runtime-Function-Error-Type": {"UnavailableError"}},
			[]byte(`{"errorMessage":"the bank is down: retry after 1h"}`))
	case do("answer garbage"):
		d.answer([]byte(`{"batchItemFailures":[`))
	case do("answer a text"):
		d.answer([]byte(`"{\"batchItemFailures\":[{\"itemIdentifier\":\"b\"}]}"`))
	case do("answer too much"):
		d.answer(make([]byte, 6<<20+101))
	case do("answer ok"):
		d.answer([]byte(`"ok"`))
	case do("answer twice"):
		first := d.answer(answer)
		fmt.Println("answers:", first, d.answer([]byte("{")))
	case do("answer in a thread"):
		statuses := make(chan int)
		go func() { // which works on behind the answer
			for {
				runtime.Gosched()
			}
		}()
		go func() { statuses <- d.answer(answer) }()
		fmt.Println("answers:", <-statuses)
	case do("answer the call before"):
		before := delivery{Header: d.Header.Clone()}
		id, _, _ := strings.Cut(d.id(), "-2")
		before.Header.Set("Lambda-Runtime-Aws-Request-Id", id)
		fmt.Println("answers:", before.answer([]byte(`{"batchItemFailures":[`)), d.answer(answer))
	case do("answer and exit"):
		d.answer(answer)
		os.Exit(7)
	case do("answer partly"):
		partly(d)
	default:
		d.answer(answer)
	}
}

// fork starts another process, which waits.
func fork() {
	waiting := exec.Command("cat")
	_, err := waiting.StdinPipe() // which it waits for
	check(err)
	waiting.Stdout = nil
	check(waiting.Start())
}

// raised returns the error of a record that is to raise one: "raise TYPE MESSAGE". It is nil if there is
// none.
func raised(records []record) []byte {
	for _, r := range records {
		if what, ok := strings.CutPrefix(r.do, "raise "); ok {
			kind, message, _ := strings.Cut(what, " ")
			body, err := json.Marshal(map[string]any{"errorType": kind, "errorMessage": message,
				"stackTrace": []string{}})
			check(err)
			return body
		}
	}
	return nil
}

// answerTo names the records that are to fail, and gives results to those that have some.
func answerTo(records []record) []byte {
	failures, results := []any{}, []any{}
	for _, r := range records {
		item := map[string]any{"itemIdentifier": r.identifier()}
		switch r.do {
		case "fail":
			failures = append(failures, item)
		case "fail for good":
			item["permanent"], item["error"] = true, "the account is closed"
			failures = append(failures, item)
		case "fail for an hour":
			item["retryAfterMs"] = 3_600_000
			failures = append(failures, item)
		case "fail another":
			item["itemIdentifier"] = map[string]any{"partition": "payments-3", "offset": 99}
			failures = append(failures, item)
		case "result":
			item["result"] = map[string]any{"booking": r.key}
			results = append(results, item)
		}
	}
	out, err := json.Marshal(map[string]any{"batchItemFailures": failures, "idemskResults": results})
	check(err)
	return out
}

// stream streams an answer, which ends with an error in its trailers if there is a failure.
func stream(d delivery, body []byte, kind, failure string) {
	req, err := http.NewRequest(http.MethodPost, address()+"invocation/"+d.id()+"/response",
		io.MultiReader(bytes.NewReader(body)))
	check(err)
	req.Header.Set("Lambda-Runtime-Function-Response-Mode", "streaming")
	if failure != "" {
		req.Trailer = http.Header{
			"Lambda-Runtime-Function-Error-Type": {kind},
			"Lambda-Runtime-Function-Error-Body": {base64.StdEncoding.EncodeToString([]byte(failure))},
		}
	}
	resp, err := http.DefaultClient.Do(req)
	check(err)
	check(resp.Body.Close())
}

// partly sends a part of an answer and ends.
func partly(d delivery) {
	body, out := io.Pipe()
	go func() {
		_, _ = out.Write([]byte(`{"batch`))
		os.Exit(6)
	}()
	resp, err := http.Post(address()+"invocation/"+d.id()+"/response", "application/json", body)
	check(err)
	check(resp.Body.Close())
}

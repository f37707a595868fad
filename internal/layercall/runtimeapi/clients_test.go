package runtimeapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
)

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
	"in a session of its own": func(runtime) {
		session := exec.Command(os.Args[0])
		session.Env = append(os.Environ(), modeVariable+"=plain")
		session.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		session.Stdout = os.Stdout // whose end ends it
		must(0, session.Run())
	},
	"with sockets of IPv6": func(r runtime) { // as those of Java
		http.DefaultClient.Transport = &http.Transport{DialContext: dialIPv6}
		id, body := r.next()
		r.post(r.answer(id), string(body))
		forever()
	},
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
	"ends before it has read its event": func(r runtime) {
		conn := must(net.Dial("tcp", r.address()))
		must(io.WriteString(conn, "GET /2018-06-01/runtime/invocation/next HTTP/1.1\r\nHost: x\r\n\r\n"))
		must(bufio.NewReaderSize(conn, 16).ReadString('\n'))
		os.Exit(8)
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

// dialIPv6 connects to an address of IPv4 by a socket of IPv6.
func dialIPv6(_ context.Context, _, address string) (net.Conn, error) {
	to := must(net.ResolveTCPAddr("tcp", address))
	fd := must(syscall.Socket(syscall.AF_INET6, syscall.SOCK_STREAM, 0))
	at := &syscall.SockaddrInet6{Port: to.Port}
	copy(at.Addr[:], to.IP.To16())
	must(0, syscall.Connect(fd, at))
	file := os.NewFile(uintptr(fd), "socket")
	defer func() { _ = file.Close() }()
	return net.FileConn(file)
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

package dynamofake_test

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/internal/fake/dynamofake"
)

func TestConfig(t *testing.T) {
	for want, config := range map[string]dynamofake.Config{
		"Latency is -1ns": {Latency: -1},
		"loopback":        {Addr: "0.0.0.0:0"},
		"127.0.0.1:port":  {Addr: "localhost:80"},
	} {
		if _, err := dynamofake.New(config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want it to name %q", config, err, want)
		}
	}
}

func TestLifecycle(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	entered := make(chan struct{}, contenders)
	server := unstarted(t, dynamofake.Config{Latency: time.Hour,
		Fault: func(string, []byte) dynamofake.Fault {
			entered <- struct{}{}
			return dynamofake.Fault{}
		}})
	if server.Addr() != "" || server.URL() != "" {
		t.Errorf("before Start: %q %q", server.Addr(), server.URL())
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	if host, _, err := net.SplitHostPort(server.Addr()); err != nil || host != "127.0.0.1" ||
		server.URL() != "http://"+server.Addr() {
		t.Errorf("listening on %q, %q", server.Addr(), server.URL())
	}
	if err := server.Start(); err == nil || !strings.Contains(err.Error(), "started twice") {
		t.Errorf("second Start: %v", err)
	}
	idle, err := net.Dial("tcp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	db := client(server.URL())
	ended := make(chan []error)
	go func() {
		ended <- together(contenders, func(int) error {
			_, err := get(key("a"))(db, table)
			return err
		})
	}()
	for range contenders {
		<-entered
	}
	for _, err := range together(2, func(int) error { return server.Close() }) {
		if err != nil {
			t.Error(err)
		}
	}
	for _, err := range <-ended {
		if err == nil {
			t.Error("a request was answered by a closed server before its time")
		}
	}
	if err := server.Start(); err == nil || !strings.Contains(err.Error(), "after Close") {
		t.Errorf("Start after Close: %v", err)
	}
}

func TestCloseWaitsForRequests(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	var ended atomic.Bool
	server, db := start(t, dynamofake.Config{Fault: func(string, []byte) dynamofake.Fault {
		close(entered)
		<-release
		ended.Store(true)
		return dynamofake.Fault{}
	}})
	answered := make(chan error)
	go func() {
		_, err := get(key("a"))(db, table)
		answered <- err
	}()
	<-entered
	waited := make(chan bool)
	go func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		waited <- ended.Load()
	}()
	if err := <-answered; err == nil {
		t.Error("a closed server answered")
	}
	select {
	case <-waited:
		t.Error("Close returned while a request was under way")
	case <-time.After(20 * time.Millisecond): // time enough for a Close that does not wait
	}
	close(release)
	if !<-waited {
		t.Error("Close returned before the request's end")
	}
}

//go:build rest

package e2e_test

import (
	"encoding/json"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/idemsk/idemsk/internal/subprocess"
)

// peer is a process of a test, as the test sees it.
type peer struct {
	*subprocess.Process
	t      *testing.T
	name   string
	orders *json.Encoder
	events chan event
	early  []event // that the test has not waited for yet
}

// start starts a process, which is killed when the test ends.
func start(t *testing.T, s setup, env ...string) *peer {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	in, orders, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	const many = 1000 // more than a process writes
	p := &peer{t: t, name: s.Name, orders: json.NewEncoder(orders), events: make(chan event, many)}
	p.Process, err = subprocess.StartWithInput([]string{os.Args[0]},
		append(append(os.Environ(), processVariable+"="+string(text)), env...), in, func(line []byte) {
			var e event
			if json.Unmarshal(line, &e) != nil {
				t.Logf("process %s: %s", s.Name, line)
				return
			}
			p.events <- e
		})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Signal(syscall.SIGKILL) // also of a process that is stopped
		<-p.Ended()
		_ = orders.Close()
	})
	return p
}

// order gives an order.
func (p *peer) order(do string, keys ...string) {
	p.t.Helper()
	if err := p.orders.Encode(order{do, keys}); err != nil {
		p.t.Fatalf("process %s: %v", p.name, err)
	}
}

// each gives an order and waits until it is carried out for each key.
func (p *peer) each(do, what string, keys ...string) {
	p.t.Helper()
	p.order(do, keys...)
	for _, key := range keys {
		if e := p.wait(key, what); what == effected && e.Text != "" {
			p.t.Fatalf("process %s: %s: %s", p.name, key, e.Text)
		}
	}
}

// wait waits for an event.
func (p *peer) wait(key, what string) event {
	p.t.Helper()
	for i, e := range p.early {
		if e.Key == key && e.What == what {
			p.early = append(p.early[:i], p.early[i+1:]...)
			return e
		}
	}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		select {
		case e := <-p.events:
			if e.Key == key && e.What == what {
				return e
			}
			p.early = append(p.early, e)
		case <-p.Ended():
			status, _ := p.Status()
			p.t.Fatalf("process %s ended with %s; want %s of %s", p.name, status, what, key)
		case <-limit.C:
			p.t.Fatalf("process %s: no %s of %s; it said %v", p.name, what, key, p.early)
		}
	}
}

// wantEnd has a handler return and wants an outcome.
func (p *peer) wantEnd(do, key, want string) {
	p.t.Helper()
	p.order(do, key)
	if got := p.wait(key, ended).Text; got != want {
		p.t.Errorf("process %s: %s: %s; want %s", p.name, key, got, want)
	}
}

package local_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/console"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
)

// page is the page of a run of the example function, as a browser has it.
type page struct {
	t      *testing.T
	url    string
	token  string
	events *bufio.Scanner
	ended  chan struct{} // closed when the run has ended
	stop   context.CancelFunc
	report *local.Report
}

// open starts a run with a page. The run is ended with the test.
func open(t *testing.T, change func(o *local.Options)) *page {
	t.Helper()
	o, s := options(t, "")
	o.Function, o.Example, o.UntilDrained, o.Partitions = "'"+handler+"'", true, false, 1
	o.Env = []string{"IDEMSK_LEASE=1s"}
	o.UI = local.UI{Addr: "127.0.0.1:0"}
	if change != nil {
		change(&o)
	}
	p := &page{t: t, ended: make(chan struct{})}
	shown, opened := make(chan string, 1), make(chan struct{})
	say := o.Say
	o.Say = func(line string) {
		say(line)
		if at, ok := strings.CutPrefix(line, "Page: "); ok {
			shown <- at
			<-opened
		}
	}
	defer close(opened)
	ctx, stop := context.WithTimeoutCause(context.WithoutCancel(t.Context()), 5*time.Minute,
		errors.New("the test took too long"))
	p.stop = stop
	var runErr error
	go func() {
		defer close(p.ended)
		p.report, runErr = local.Run(ctx, o)
	}()
	t.Cleanup(func() {
		stop()
		<-p.ended
		http.DefaultClient.CloseIdleConnections()
		if runErr != nil {
			t.Error(runErr)
		}
		if t.Failed() {
			t.Log(s.String())
		}
	})
	select {
	case p.url = <-shown:
	case <-p.ended:
		t.Fatalf("the run has ended: %v", runErr)
	}
	p.token = regexp.MustCompile(`name="token" content="([^"]+)"`).FindStringSubmatch(
		p.text(http.MethodGet, "", nil))[1]
	p.stream(ctx)
	return p
}

// stream opens the stream of states.
func (p *page) stream(ctx context.Context) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"api/stream", http.NoBody)
	if err != nil {
		p.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = resp.Body.Close() })
	p.events = bufio.NewScanner(resp.Body)
	p.events.Buffer(nil, 1<<20)
}

// until reads states until a condition holds.
func (p *page) until(what string, holds func(run *console.Run) bool) {
	p.t.Helper()
	for p.events.Scan() {
		var run console.Run
		data, ok := strings.CutPrefix(p.events.Text(), "data: ")
		if ok && json.Unmarshal([]byte(data), &run) == nil && holds(&run) {
			return
		}
	}
	p.t.Fatalf("the stream has ended, and not %s: %v", what, p.events.Err())
}

func (p *page) text(method, path string, body []byte) string {
	p.t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(p.t.Context()), method, p.url+path,
		bytes.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("X-Idemsk-Token", p.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil {
		p.t.Fatal(err)
	}
	return b.String()
}

func get[T any](p *page, path string) (v T) {
	p.t.Helper()
	if text := p.text(http.MethodGet, path, nil); json.Unmarshal([]byte(text), &v) != nil {
		p.t.Fatalf("%s: %s", path, text)
	}
	return v
}

// do performs an action, and checks what it says.
func (p *page) do(a console.Action, says string) {
	p.t.Helper()
	body, err := json.Marshal(a)
	if err != nil {
		p.t.Fatal(err)
	}
	if got := p.text(http.MethodPost, "api/actions", body); !strings.Contains(got, says) {
		p.t.Fatalf("%s: %s; want %q", a.Action, got, says)
	}
}

func (p *page) produce(id, more string) {
	p.t.Helper()
	p.do(console.Action{Action: console.ActionProduce,
		Record: &console.Record{Key: "alice", ID: id, Value: payment(id, more)}}, "Produced payments-0@")
}

// payment returns the value of a record. more are further members of its JSON.
func payment(id, more string) string {
	return fmt.Sprintf(`{"paymentId":%q,"account":"alice","amount":5,"currency":"EUR"%s}`, id, more)
}

// progress returns the state of the only partition, once it is known.
func progress(run *console.Run) (p console.Partition) {
	if len(run.Partitions) > 0 {
		p = run.Partitions[0]
	}
	return p
}

// history waits until a key has an event of a kind, and returns the history.
func (p *page) history(id, kind string) (h console.History) {
	p.t.Helper()
	p.until(id+" is "+kind, func(*console.Run) bool {
		h = get[console.History](p, "api/key?key="+url.QueryEscape("function#payments#"+id))
		return slices.ContainsFunc(h.Events, func(e console.Event) bool { return e.Kind == kind })
	})
	return h
}

// kinds describes the events of a history with their processes: "claimed 1".
func kinds(h console.History) (all []string) {
	for _, e := range h.Events {
		switch e.Kind {
		case console.KindWaited, console.KindExtended, console.KindRepeated:
			// how often depends on the moment
		default:
			all = append(all, fmt.Sprintf("%s %d", e.Kind, e.Process))
		}
	}
	return all
}

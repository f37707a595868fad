package gate_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/gate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The requests of a test, by what they are to the gate.
const (
	effect     = `{"TableName":"ledger","Key":{"account":{"S":"a"}}}`
	completion = `{"TableName":"keys","Key":{"idempotencyKey":{"S":"k"}},"UpdateExpression":"SET #updatedAt = :1, #status = :2",
		"ExpressionAttributeNames":{"#status":"status","#updatedAt":"updatedAt"},
		"ExpressionAttributeValues":{":1":{"N":"1"},":2":{"S":"COMPLETED"}}}`
)

// upstream answers, and counts the effects that it performs. Effects wait for proceed, if it is not nil.
type upstream struct {
	effects atomic.Int64
	begun   chan struct{}
	proceed chan struct{}
	status  int
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Test-Effect") != "" {
		if u.begun != nil {
			u.begun <- struct{}{}
		}
		if u.proceed != nil {
			<-u.proceed
		}
		if u.status == 0 {
			u.effects.Add(1)
		}
	}
	if u.status != 0 {
		w.WriteHeader(u.status)
	}
}

// fixture is a gate with a process that is a client: to kill it is to close its connections.
type fixture struct {
	t      *testing.T
	gate   *gate.Gate
	client *http.Client
	cancel context.CancelFunc
	ctx    context.Context // of the process
	killed chan struct{}
}

func newFixture(t *testing.T, u http.Handler, change func(c *gate.Config)) *fixture {
	t.Helper()
	f := &fixture{t: t, killed: make(chan struct{}, 1)}
	cfg := gate.Config{
		Upstream: u, Table: "keys", Ledger: "ledger", Protected: true, Patience: time.Minute,
		Kill: func() { f.killed <- struct{}{} },
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	if f.gate, err = gate.Start(cfg); err != nil {
		t.Fatal(err)
	}
	f.start()
	t.Cleanup(func() {
		f.die()
		if err := f.gate.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func (f *fixture) start() {
	f.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 10}}
	f.ctx, f.cancel = context.WithCancel(context.Background())
}

// die ends the process: its requests are abandoned where they are.
func (f *fixture) die() {
	f.cancel()
	f.client.CloseIdleConnections()
}

func (f *fixture) send(body string) error {
	req, err := http.NewRequestWithContext(f.ctx, http.MethodPost, f.gate.URL(), strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("X-Amz-Target", "DynamoDB_20120810.UpdateItem")
	if body == effect {
		req.Header.Set("Test-Effect", "1")
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func (f *fixture) mustSend(body string) {
	f.t.Helper()
	if err := f.send(body); err != nil {
		f.t.Fatal(err)
	}
}

// drain is what the harness does when the process has ended.
func (f *fixture) drain() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := f.gate.Drain(ctx); err != nil {
		f.t.Fatal(err)
	}
}

func TestKillWaitsForCompletions(t *testing.T) {
	t.Parallel()
	u := &upstream{}
	f := newFixture(t, u, nil)
	f.gate.KillBefore([]int{3})
	f.mustSend(effect)
	f.mustSend(effect)
	held := make(chan error, 1)
	go func() { held <- f.send(effect) }()
	f.mustSend(completion)
	select {
	case <-f.killed:
		t.Fatal("killed although an effect has no completion yet")
	case err := <-held:
		t.Fatalf("the third effect was answered: %v", err)
	default:
	}
	f.mustSend(completion)
	<-f.killed
	f.die()
	if err := <-held; err == nil {
		t.Error("the held effect was answered")
	}
	f.drain()
	if n := u.effects.Load(); n != 2 {
		t.Errorf("%d effects were performed, want 2", n)
	}
	if k := f.gate.Kills(); k != (gate.Kills{Done: 1}) {
		t.Errorf("kills: %+v", k)
	}
	f.start()
	f.mustSend(effect) // the next process is let through
	if n := u.effects.Load(); n != 3 {
		t.Errorf("%d effects were performed, want 3", n)
	}
}

func TestKillOfUnprotectedWaitsForAnswers(t *testing.T) {
	t.Parallel()
	u := &upstream{begun: make(chan struct{}), proceed: make(chan struct{})}
	f := newFixture(t, u, func(c *gate.Config) { c.Protected = false })
	f.gate.KillBefore([]int{2})
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- f.send(effect) }()
	<-u.begun
	go func() { second <- f.send(effect) }()
	select {
	case <-f.killed:
		t.Fatal("killed in the middle of an effect")
	case <-time.After(50 * time.Millisecond): // the second effect has had time to arrive
	}
	u.proceed <- struct{}{}
	if err := <-first; err != nil {
		t.Error(err)
	}
	<-f.killed
	f.die()
	<-second
	f.drain()
	if n := u.effects.Load(); n != 1 {
		t.Errorf("%d effects were performed, want 1", n)
	}
}

func TestKillIsGivenUp(t *testing.T) {
	t.Parallel()
	u := &upstream{}
	f := newFixture(t, u, func(c *gate.Config) { c.Patience = 20 * time.Millisecond })
	f.gate.KillBefore([]int{2})
	f.mustSend(effect) // never gets its completion
	f.mustSend(effect) // held, then let go
	if k := f.gate.Kills(); k != (gate.Kills{Unplaced: 1}) {
		t.Errorf("kills: %+v, want one that could not be placed", k)
	}
	f.die()
	f.drain()
	if k := f.gate.Kills(); k.Torn != 2 {
		t.Errorf("torn effects: %d, want the 2 without completion", k.Torn)
	}
}

func TestFailedEffectNeedsNoCompletion(t *testing.T) {
	t.Parallel()
	u := &upstream{status: http.StatusBadRequest}
	f := newFixture(t, u, nil)
	f.gate.KillBefore([]int{2})
	f.mustSend(effect)
	go func() { _ = f.send(effect) }()
	<-f.killed
	f.die()
	f.drain()
}

func TestManyWorkersAndKills(t *testing.T) {
	t.Parallel()
	u := &upstream{}
	f := newFixture(t, u, nil)
	const kills, workers, each = 5, 8, 20
	before := []int{3, 17, 40, 41, 90}
	f.gate.KillBefore(before)
	for process := 0; process <= kills; process++ {
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for range each {
					if f.send(effect) != nil || f.send(completion) != nil {
						return
					}
				}
			})
		}
		if process < kills {
			<-f.killed
			f.die()
		}
		wg.Wait()
		f.die()
		f.drain()
		if process < kills {
			if n := int(u.effects.Load()); n != before[process]-1 {
				t.Fatalf("%d effects were performed before kill %d, want %d", n, process+1, before[process]-1)
			}
		}
		f.start()
	}
	if k := f.gate.Kills(); k != (gate.Kills{Done: kills}) {
		t.Errorf("kills: %+v, want %d and nothing torn", k, kills)
	}
}

func TestDrainGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	f := newFixture(t, &upstream{}, nil)
	f.mustSend(effect) // its connection stays
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := f.gate.Drain(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Drain with a connection left: %v", err)
	}
	if err := f.send(effect); err == nil {
		t.Error("an effect of a process that is gone was performed")
	}
}

func TestUnreadableRequest(t *testing.T) {
	t.Parallel()
	f := newFixture(t, &upstream{}, nil)
	resp, err := f.client.Post(f.gate.URL(), "application/x-amz-json-1.0", strings.NewReader("{"))
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("status %d, %v", resp.StatusCode, err)
	}
}

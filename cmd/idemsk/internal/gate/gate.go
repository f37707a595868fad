// Package gate is a DynamoDB endpoint between a function and its tables. It counts what passes, and it can end the
// function's process just before an effect.
//
// An effect is an UpdateItem on the ledger, a completion the UpdateItem that sets a key to COMPLETED. A process that dies
// between the two leaves an effect that its successor has again, which is what the plain mode of idemsk can't prevent. So
// the gate kills where that can't happen: it holds the effects that arrive, lets everything else pass until every effect
// that passed has its completion, kills, and never performs what it held.
package gate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Config says what is behind a gate.
type Config struct {
	// Upstream performs the requests.
	Upstream http.Handler
	// Table holds the idempotency keys, Ledger the effects.
	Table, Ledger string
	// Protected says that a completion follows each effect. Otherwise an effect is done when it is answered.
	Protected bool
	// Kill ends the function's process. It must not wait for its end, nor call the gate.
	Kill func()
	// Patience is how long effects are held until those before them have their completions, before a kill is given up
	// (default 10 s).
	Patience time.Duration
}

// Gate is a running gate. Its methods may be called concurrently.
type Gate struct {
	cfg      Config
	listener net.Listener
	server   *http.Server
	served   chan struct{} // closed when the accepting goroutine has ended

	mu          sync.Mutex
	connections int
	vacant      chan struct{} // holds a token when the last connection may have gone
	process     *process
	kills       []int // before which effects to kill, ascending; counted like begun
	begun       int   // effects that passed since KillBefore
	done        Kills
	counts      counts
}

// process is what the gate knows of the one that it serves. Requests that one left behind keep to its own.
type process struct {
	open   int           // effects that passed and have no completion yet
	held   int           // effects that wait
	killed bool          // by the gate: it dies any moment
	gone   bool          // it has ended: what still arrives of it is not performed
	armed  chan struct{} // not nil: effects are held; closed when the kill has been given up
	timer  *time.Timer   // that gives the kill up
}

// Kills are the ends of processes.
type Kills struct {
	Done     int // before an effect, with none half done
	Unplaced int // given up, as effects did not get their completions in time
	Torn     int // effects without a completion when the process ended by itself
}

// Start listens on a free port of 127.0.0.1 and serves until Close.
func Start(cfg Config) (*Gate, error) {
	if cfg.Patience == 0 {
		cfg.Patience = 10 * time.Second
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("the DynamoDB endpoint for the function: %w", err)
	}
	g := &Gate{
		cfg: cfg, listener: listener, served: make(chan struct{}), vacant: make(chan struct{}, 1), process: new(process),
	}
	g.server = &http.Server{
		Handler: g, ReadHeaderTimeout: 10 * time.Second, ConnState: g.track,
		ErrorLog: log.New(io.Discard, "", 0),
	}
	go func() {
		defer close(g.served)
		_ = g.server.Serve(listener) // ends with Close
	}()
	return g, nil
}

// URL is the endpoint for the function.
func (g *Gate) URL() string { return "http://" + g.listener.Addr().String() }

// Close ends the gate and its connections, and returns when the last of them has gone.
func (g *Gate) Close() error {
	err := g.server.Close()
	<-g.served
	err = errors.Join(err, g.server.Close()) // a connection that was accepted meanwhile
	return errors.Join(err, g.vacate(context.Background()))
}

func (g *Gate) track(_ net.Conn, state http.ConnState) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch state {
	case http.StateNew:
		g.connections++
	case http.StateClosed:
		if g.connections--; g.connections > 0 {
			return
		}
		select {
		case g.vacant <- struct{}{}:
		default:
		}
	case http.StateActive, http.StateIdle, http.StateHijacked:
	}
}

// Drain is called when the process has ended, before the next one starts: it returns when nothing is left of what the old
// one sent, so that no late effect of it can follow.
func (g *Gate) Drain(ctx context.Context) error {
	g.bury()
	if err := g.flush(ctx); err != nil {
		return fmt.Errorf("waiting for the connections of an ended process: %w", err)
	}
	if err := g.vacate(ctx); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.process = new(process)
	return nil
}

// bury makes sure that nothing of the process is performed any more.
func (g *Gate) bury() {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.process
	if !p.killed {
		g.done.Torn += p.open
	}
	p.gone, p.open = true, 0
	p.disarm()
}

// flush makes a connection of its own and waits until it is served. Connections are accepted in the order in which they
// were made: so all that the process made, before it ended, have been accepted then.
func (g *Gate) flush(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.URL(), nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// vacate waits until there are no connections.
func (g *Gate) vacate(ctx context.Context) error {
	for {
		g.mu.Lock()
		n := g.connections
		g.mu.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-g.vacant:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %d connections of an ended process: %w", n, context.Cause(ctx))
		}
	}
}

// KillBefore sets before which of the coming effects the process is to be killed: 1 is the next one.
func (g *Gate) KillBefore(effects []int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kills, g.begun = slices.Sorted(slices.Values(effects)), 0
}

// Kills says what became of the kills so far.
func (g *Gate) Kills() Kills {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.done
}

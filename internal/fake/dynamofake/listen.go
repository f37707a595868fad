package dynamofake

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// listening is the state of a server that Start creates.
type listening struct {
	mu          sync.Mutex // guards the fields down to served
	closed      bool
	addr        string
	server      *http.Server
	served      chan struct{} // closed when the accepting goroutine has ended
	connections sync.WaitGroup
}

// Start listens on the configured address and serves in the background until Close. It can be called once.
func (s *Server) Start() error {
	l := &s.listening
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return errors.New("dynamofake: Start after Close")
	case l.server != nil:
		return fmt.Errorf("dynamofake: Start called twice, already listening on %s", l.addr)
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", s.config.Addr)
	if err != nil {
		return fmt.Errorf("dynamofake: listen: %w", err)
	}
	l.addr = listener.Addr().String()
	l.served = make(chan struct{})
	l.server = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, ConnState: l.track}
	go func(server *http.Server) {
		defer close(l.served)
		_ = server.Serve(listener) // ends with Close
	}(l.server)
	return nil
}

// track counts the connections. Each has a goroutine.
func (l *listening) track(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		l.connections.Add(1)
	case http.StateClosed:
		l.connections.Done()
	case http.StateActive, http.StateIdle, http.StateHijacked:
	}
}

// Addr returns the address that the server listens on, host:port; empty before Start.
func (s *Server) Addr() string {
	s.listening.mu.Lock()
	defer s.listening.mu.Unlock()
	return s.listening.addr
}

// URL returns the endpoint for a client's BaseEndpoint; empty before Start.
func (s *Server) URL() string {
	if addr := s.Addr(); addr != "" {
		return "http://" + addr
	}
	return ""
}

// Close stops the server. It closes all connections, ends all waits, and returns when the last request and
// goroutine have ended. Further calls have no effect.
func (s *Server) Close() error {
	l := &s.listening
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(s.stopped)
	}
	server := l.server
	l.mu.Unlock() // a request that is to end may ask for the address
	if server == nil {
		return nil
	}
	err := server.Close()
	<-l.served
	// A connection that was accepted while Close ran is known to the server only now.
	err = errors.Join(err, server.Close())
	l.connections.Wait()
	if err != nil {
		return fmt.Errorf("dynamofake: close: %w", err)
	}
	return nil
}

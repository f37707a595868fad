// Package localhttp serves the fakes over HTTP. It listens on loopback addresses alone, because the fakes do
// not check credentials.
package localhttp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// FreePort is the address of a port that the system chooses.
const FreePort = "127.0.0.1:0"

const headerTimeout = 10 * time.Second

// Server serves a handler. It is safe for concurrent use.
type Server struct {
	address string // to listen on
	handler http.Handler
	stopped chan struct{}

	mu          sync.Mutex // guards the fields down to served
	closed      bool
	at          string // address with its port; empty before Start
	server      *http.Server
	served      chan struct{} // closed when the accepting goroutine has ended
	connections sync.WaitGroup
}

// New returns a server that does not listen yet. The address is FreePort if it is empty.
func New(address string, handler http.Handler) (*Server, error) {
	if address == "" {
		address = FreePort
	}
	addr, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, fmt.Errorf("the address %q: %w; want 127.0.0.1:port", address, err)
	}
	if !addr.Addr().IsLoopback() {
		return nil, fmt.Errorf("the address %s is no loopback address, such as %s", address, FreePort)
	}
	return &Server{address: address, handler: handler, stopped: make(chan struct{})}, nil
}

// Start listens, and serves in the background until Close. It can be called once.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.server != nil {
		return errors.New("started twice, or after Close")
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", s.address)
	if err != nil {
		return err //nolint:wrapcheck // has the address; the caller names the setting
	}
	s.at, s.served = listener.Addr().String(), make(chan struct{})
	s.server = &http.Server{Handler: s.handler, ReadHeaderTimeout: headerTimeout, ConnState: s.track}
	go func(server *http.Server) {
		defer close(s.served)
		_ = server.Serve(listener) // ends with Close
	}(s.server)
	return nil
}

// track counts the connections. Each has a goroutine.
func (s *Server) track(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.connections.Add(1)
	case http.StateClosed:
		s.connections.Done()
	case http.StateActive, http.StateIdle, http.StateHijacked:
	}
}

// Addr returns the address that the server listens on, host:port; empty before Start.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

// URL returns the endpoint for a client's BaseEndpoint; empty before Start.
func (s *Server) URL() string {
	if addr := s.Addr(); addr != "" {
		return "http://" + addr
	}
	return ""
}

// Stopped is closed when Close begins. It ends what a request waits for.
func (s *Server) Stopped() <-chan struct{} { return s.stopped }

// Close stops the server. It closes all connections, and returns when the last request and goroutine have
// ended. Further calls have no effect.
func (s *Server) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.stopped)
	}
	server := s.server
	s.mu.Unlock() // a request that is to end may ask for the address
	if server == nil {
		return nil
	}
	err := server.Close()
	<-s.served
	// A connection that was accepted while Close ran is known to the server only now.
	err = errors.Join(err, server.Close())
	s.connections.Wait()
	return err
}

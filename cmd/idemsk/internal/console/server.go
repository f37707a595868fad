package console

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"
)

// Address is the usual address of a page.
const Address = "127.0.0.1:7433"

// Config configures a server.
type Config struct {
	// Addr is the address to listen on, host:port. Port 0 is a free port.
	Addr string
	// Fallback selects a free port if that of Addr is in use.
	Fallback bool
	// Password is asked for if it is set. It is required if Addr is not a loopback address.
	Password string
	Source   Source
}

// Server serves the page.
type Server struct {
	http   *http.Server
	api    *api
	url    string
	served chan struct{} // closed when the goroutine of Serve has ended
}

// Start starts a server. The caller closes it.
func Start(c Config) (*Server, error) {
	listener, host, err := listen(c)
	if err != nil {
		return nil, err
	}
	const headerTimeout = 10 * time.Second
	token := rand.Text()
	s := &Server{url: "http://" + listener.Addr().String() + "/", served: make(chan struct{}),
		api: newAPI(c.Source)}
	s.http = &http.Server{Handler: s.api.handler(host, c.Password, token), ReadHeaderTimeout: headerTimeout}
	go func() {
		defer close(s.served)
		_ = s.http.Serve(listener) // ends with Close
	}()
	return s, nil
}

// Show shows another source from now on.
func (s *Server) Show(source Source) { s.api.shown.Store(&source) }

// URL returns the address of the page.
func (s *Server) URL() string { return s.url }

// Close sends the last state of the source to the open pages, and ends the server. It is called once.
func (s *Server) Close() error {
	s.api.end()
	err := s.http.Close()
	<-s.served
	return err
}

// listen listens on the address of the page, and returns its host.
func listen(c Config) (listener net.Listener, host string, err error) {
	host, _, err = net.SplitHostPort(c.Addr)
	if err != nil {
		return nil, "", fmt.Errorf("the address of the page is %q: want HOST:PORT, such as "+Address+": %w",
			c.Addr, err)
	}
	if !isLoopback(host) && c.Password == "" {
		return nil, "", fmt.Errorf("the page at %s can be reached from other machines: set a password in IDEMSK_UI_PASSWORD, or use 127.0.0.1", c.Addr)
	}
	var lc net.ListenConfig
	listener, err = lc.Listen(context.Background(), "tcp", c.Addr)
	if c.Fallback && errors.Is(err, syscall.EADDRINUSE) {
		listener, err = lc.Listen(context.Background(), "tcp", net.JoinHostPort(host, "0"))
	}
	if err != nil {
		return nil, "", fmt.Errorf("the page can't be served at %s: %w", c.Addr, err)
	}
	return listener, host, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

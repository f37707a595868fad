package redisstore

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// conns are the connections of a client. After an attempt that timed out, the client tries another
// connection, which is often dead too. So a timeout closes all idle connections.
type conns struct {
	mu   sync.Mutex
	open map[*conn]struct{}
}

// option makes a client dial its connections through c.
func (c *conns) option(o *redis.UniversalOptions) {
	dial := o.Dialer
	if dial == nil {
		dial = redis.NewDialer(&redis.Options{DialTimeout: o.DialTimeout, TLSConfig: o.TLSConfig})
	}
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		made, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		one := &conn{Conn: made, all: c}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open[one] = struct{}{}
		return one, nil
	}
}

// closeIdle closes the connections that do not wait for an answer.
func (c *conns) closeIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for one := range c.open {
		if !one.waits.Load() {
			one.closed.Store(true)
			_ = one.Conn.Close()
		}
	}
}

func (c *conns) forget(one *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, one)
}

// conn is one of a client's connections.
type conn struct {
	net.Conn
	all    *conns
	waits  atomic.Bool // a request was sent, and no answer was received since
	closed atomic.Bool
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	c.waits.Store(true)
	n, err := c.Conn.Write(p)
	c.late(err)
	return n, err
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.waits.Store(false)
	}
	c.late(err)
	return n, err
}

// late closes the idle connections if err is a timeout of an answer.
func (c *conn) late(err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) && c.waits.Load() {
		c.all.closeIdle()
	}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.all.forget(c)
	return c.Conn.Close()
}

// SyscallConn implements syscall.Conn. The client uses it to check an idle connection before it reuses it.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if c.closed.Load() {
		return nil, net.ErrClosed
	}
	if tcp, ok := c.Conn.(syscall.Conn); ok {
		return tcp.SyscallConn()
	}
	return opaque{}, nil
}

// opaque is the RawConn of a TLS connection. It exposes nothing.
type opaque struct{}

func (opaque) Control(func(fd uintptr)) error           { return nil }
func (opaque) Read(func(fd uintptr) (done bool)) error  { return nil }
func (opaque) Write(func(fd uintptr) (done bool)) error { return nil }

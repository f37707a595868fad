// Package faultproxy is a TCP proxy for tests. It injects three network faults: connections are refused, are
// reset, or become silent without a FIN or RST.
package faultproxy

import (
	"context"
	"errors"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Fault is the fault of a connection.
type Fault int

// The faults. A Silent connection stays open on both sides until the proxy is closed, and carries no data or
// close. The kernel acknowledges sent data until its buffers are full.
const (
	None    Fault = iota // what is sent arrives
	Refused              // nothing listens; of a connection that is there, the same as Reset
	Reset                // RST, on both sides
	Silent
)

// Proxy is a running proxy. Its methods may be called concurrently.
type Proxy struct {
	tb     testing.TB
	target string
	at     net.Addr
	closed chan struct{}
	work   sync.WaitGroup // of goroutines

	mu        sync.Mutex
	listener  net.Listener  // nil while connections are refused
	fresh     Fault         // of new connections
	reply     Fault         // of the connection on which the server answers next
	delay     time.Duration // of the next request
	rate      int           // bytes a second, in each direction of a connection; 0: as fast as it goes
	links     map[*link]struct{}
	connected int
}

// Start starts a proxy to target, host:port, on a free port of 127.0.0.1. It is closed when the test ends.
func Start(tb testing.TB, target string) *Proxy {
	tb.Helper()
	p := &Proxy{tb: tb, target: target, closed: make(chan struct{}), links: make(map[*link]struct{})}
	p.listen("127.0.0.1:0")
	if p.listener == nil {
		tb.FailNow()
	}
	p.at = p.listener.Addr()
	tb.Cleanup(p.close)
	return p
}

// StartURL is Start for a server that is named by a URL. It returns the URL with the proxy in the place of
// the server.
func StartURL(tb testing.TB, rawURL string) (p *Proxy, proxied string) {
	tb.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		tb.Fatal(err)
	}
	p = Start(tb, u.Host)
	u.Host = p.Addr()
	return p, u.String()
}

// Listen returns a listener for a server that announces its address, such as a Kafka broker. The address of
// the listener is that of a proxy in front of it.
func Listen(tb testing.TB) (net.Listener, *Proxy) {
	tb.Helper()
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := Start(tb, l.Addr().String())
	return &proxied{Listener: l, proxy: p}, p
}

// proxied is a listener that is reached through a proxy.
type proxied struct {
	net.Listener
	proxy *Proxy
}

// Addr implements net.Listener.
func (l *proxied) Addr() net.Addr { return l.proxy.at }

// Addr returns the address of the proxy, host:port.
func (p *Proxy) Addr() string { return p.at.String() }

// Connections returns the number of connections that were made.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.connected
}

// Existing injects a fault into the open connections. None has no effect: a silent connection stays silent.
func (p *Proxy) Existing(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.fail(f)
	}
}

// New injects a fault into future connections. None ends the fault.
func (p *Proxy) New(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fresh = f
	switch {
	case f == Refused && p.listener != nil:
		_ = p.listener.Close()
		p.listener = nil
	case f != Refused && p.listener == nil:
		p.listen(p.Addr())
	}
}

// NextReply injects a fault into the connection of the server's next reply, after the request was performed.
// The reply is lost.
func (p *Proxy) NextReply(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reply = f
}

// DelayNextRequest delays what a client sends next. It arrives even if the client closes its connection
// meanwhile.
func (p *Proxy) DelayNextRequest(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Slow limits each direction of each connection to this number of bytes a second.
func (p *Proxy) Slow(bytesPerSecond int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate = bytesPerSecond
}

// listen begins to accept. The caller holds p.mu, except at the start.
func (p *Proxy) listen(addr string) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
	if err != nil {
		p.tb.Errorf("the fault proxy can't listen on %s: %v", addr, err)
		return
	}
	p.listener = l
	p.work.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			p.work.Go(func() { p.serve(conn) })
		}
	})
}

// serve carries a connection, or injects the fault of new connections.
func (p *Proxy) serve(client net.Conn) {
	p.mu.Lock()
	fault := p.fresh
	p.connected++
	p.mu.Unlock()
	l := &link{proxy: p, client: client, silent: make(chan struct{})}
	defer l.close()
	switch fault {
	case Refused, Reset:
		l.fail(Reset)
		return
	case Silent:
		l.fail(Silent)
	case None:
		server, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.target)
		if err != nil {
			l.fail(Reset)
			return
		}
		l.server = server
	}
	if !p.add(l) {
		return
	}
	if fault == None {
		var both sync.WaitGroup
		both.Go(func() { l.carry(l.server, l.client, false) })
		both.Go(func() { l.carry(l.client, l.server, true) })
		both.Wait()
	}
	if l.isSilent() {
		<-p.closed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// add adds a connection. It returns false if the proxy is closed.
func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.closed:
		return false
	default:
	}
	p.links[l] = struct{}{}
	return true
}

// takeReply returns the fault of the next reply, once.
func (p *Proxy) takeReply() Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.reply
	p.reply = None
	return f
}

// hold waits for the delay of the next request, once.
func (p *Proxy) hold() {
	p.mu.Lock()
	d := p.delay
	p.delay = 0
	p.mu.Unlock()
	if d > 0 {
		p.wait(d)
	}
}

// wait waits until a time has passed or the proxy is closed.
func (p *Proxy) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.closed:
	}
}

// pace waits until n more bytes have passed at the rate of the proxy, and returns the time of that. free is
// the time at which the bytes before them had passed.
func (p *Proxy) pace(free time.Time, n int) time.Time {
	p.mu.Lock()
	rate := p.rate
	p.mu.Unlock()
	if rate == 0 {
		return free
	}
	const late = 50 * time.Millisecond // which a timer can be, without making the network slower
	if now := time.Now(); now.Sub(free) > late {
		free = now
	}
	free = free.Add(time.Duration(n) * time.Second / time.Duration(rate))
	p.wait(time.Until(free))
	return free
}

func (p *Proxy) close() {
	close(p.closed)
	p.New(Refused)
	p.mu.Lock()
	for l := range p.links {
		l.close()
	}
	p.mu.Unlock()
	p.work.Wait()
}

// link is a connection of a client with its connection to the server.
type link struct {
	proxy          *Proxy
	client, server net.Conn // server is nil if it was never dialled
	silent         chan struct{}
	once           sync.Once
}

func (l *link) fail(f Fault) {
	switch f {
	case None:
	case Silent:
		l.once.Do(func() { close(l.silent) })
	case Refused, Reset:
		for _, c := range []net.Conn{l.client, l.server} {
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0) // its Close is an RST then
			}
		}
		l.close()
	}
}

func (l *link) isSilent() bool {
	select {
	case <-l.silent:
		return true
	default:
		return false
	}
}

func (l *link) close() {
	_ = l.client.Close()
	if l.server != nil {
		_ = l.server.Close()
	}
}

// carry carries one direction until either side closes it or the connection falls silent. It then reads
// nothing more, so full buffers stop the sender, as if the host were gone.
func (l *link) carry(to, from net.Conn, isReply bool) {
	const chunk = 16 << 10
	buf := make([]byte, chunk)
	var free time.Time
	for {
		n, err := from.Read(buf)
		if n > 0 && isReply {
			l.fail(l.proxy.takeReply())
		} else if n > 0 {
			l.proxy.hold()
		}
		free = l.proxy.pace(free, n)
		if l.isSilent() {
			return
		}
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				err = errors.Join(err, werr)
			}
		}
		if err != nil {
			l.close()
			return
		}
	}
}

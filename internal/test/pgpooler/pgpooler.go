// Package pgpooler is a connection pooler for PostgreSQL in transaction mode, for tests. As PgBouncer before
// version 1.21 it gives each transaction a server's connection and leaves there what belongs to a session:
// prepared statements, LISTEN and advisory locks.
package pgpooler

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// Start starts a pooler in front of the server of a URL, and returns the URL with the pooler in the place of
// the server. Clients need no password. It is closed when the test ends.
func Start(tb testing.TB, rawURL string) (pooled string) {
	tb.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		tb.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &pooler{url: rawURL, open: map[net.Conn]bool{}}
	p.work.Go(func() { p.accept(listener) })
	tb.Cleanup(func() {
		_ = listener.Close()
		p.close()
		p.work.Wait()
	})
	u.Host = listener.Addr().String()
	return u.String()
}

type pooler struct {
	url  string
	work sync.WaitGroup

	mu     sync.Mutex
	free   []*pgconn.HijackedConn
	open   map[net.Conn]bool
	closed bool
}

func (p *pooler) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		if !p.keep(client) {
			return
		}
		p.work.Go(func() {
			defer p.drop(client)
			_ = p.serve(client) // the client or the server has gone
		})
	}
}

// keep notes a connection, which close closes.
func (p *pooler) keep(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = conn.Close()
		return false
	}
	p.open[conn] = true
	return true
}

func (p *pooler) drop(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, conn)
	_ = conn.Close()
}

func (p *pooler) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for conn := range p.open {
		_ = conn.Close()
	}
}

// take returns the free connection to the server that was used last, or a new one.
func (p *pooler) take() (*pgconn.HijackedConn, error) {
	p.mu.Lock()
	if n := len(p.free); n > 0 {
		server := p.free[n-1]
		p.free = p.free[:n-1]
		p.mu.Unlock()
		return server, nil
	}
	p.mu.Unlock()
	conn, err := pgconn.Connect(context.Background(), p.url)
	if err != nil {
		return nil, err
	}
	server, err := conn.Hijack()
	if err == nil && !p.keep(server.Conn) {
		err = net.ErrClosed
	}
	return server, err
}

func (p *pooler) give(server *pgconn.HijackedConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, server)
}

// The types of messages. https://www.postgresql.org/docs/current/protocol-message-formats.html
const (
	query, syncAll, terminate = 'Q', 'S', 'X'
	readyForQuery             = 'Z'
	idle                      = 'I'
)

// serve exchanges the messages of a client with servers until one of them has gone.
func (p *pooler) serve(client net.Conn) error {
	in := bufio.NewReader(client)
	if err := p.greet(client, in); err != nil {
		return err
	}
	s := session{pooler: p, client: client}
	defer s.end()
	for {
		message, err := read(in)
		if err != nil || message[0] == terminate {
			return err
		}
		if err := s.pass(message); err != nil {
			return err
		}
	}
}

// session is a client, with a server's connection while a transaction is open.
type session struct {
	*pooler
	client net.Conn
	server *pgconn.HijackedConn
}

// pass passes a message to the server and, behind the last one of an exchange, the answer to the client.
func (s *session) pass(message []byte) (err error) {
	if s.server == nil {
		if s.server, err = s.take(); err != nil {
			return err
		}
	}
	if _, err := s.server.Conn.Write(message); err != nil {
		return err
	}
	if message[0] != query && message[0] != syncAll {
		return nil
	}
	ended, err := answer(s.client, bufio.NewReader(s.server.Conn))
	if err == nil && ended {
		s.give(s.server)
		s.server = nil
	}
	return err
}

// end closes the server's connection if its transaction has not ended.
func (s *session) end() {
	if s.server != nil {
		s.drop(s.server.Conn)
	}
}

// answer sends the server's messages to the client, up to the one that says that the server is ready. It
// reports whether no transaction is open then.
func answer(client io.Writer, server *bufio.Reader) (ended bool, err error) {
	for {
		message, err := read(server)
		if err != nil {
			return false, err
		}
		if _, err := client.Write(message); err != nil {
			return false, err
		}
		if message[0] == readyForQuery {
			return message[len(message)-1] == idle, nil
		}
	}
}

var errNoSession = errors.New("the client wants no session")

// greet answers a client's first message, with the settings of a server and a process ID that is no server's.
func (p *pooler) greet(client io.Writer, in *bufio.Reader) error {
	var size uint32
	if err := binary.Read(in, binary.BigEndian, &size); err != nil {
		return err
	}
	first := make([]byte, size-uint32(binary.Size(size)))
	if _, err := io.ReadFull(in, first); err != nil {
		return err
	}
	const version3 = 3 << 16
	if binary.BigEndian.Uint32(first)&^0xffff != version3 {
		return errNoSession // it asks for TLS, or to cancel
	}
	server, err := p.take()
	if err != nil {
		return err
	}
	defer p.give(server)
	message := func(kind byte, body []byte) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(4+len(body))), body...)
	}
	all := message('R', make([]byte, 4)) // authenticated
	for name, value := range server.ParameterStatuses {
		all = append(all, message('S', []byte(name+"\x00"+value+"\x00"))...)
	}
	const process, secret = 1, 2
	all = append(all, message('K', binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, process), secret))...)
	_, err = client.Write(append(all, message(readyForQuery, []byte{idle})...))
	return err
}

// read reads a message.
func read(in *bufio.Reader) ([]byte, error) {
	const head = 5 // the type, and the size of all but the type
	begin, err := in.Peek(head)
	if err != nil {
		return nil, err
	}
	message := make([]byte, 1+binary.BigEndian.Uint32(begin[1:]))
	_, err = io.ReadFull(in, message)
	return message, err
}

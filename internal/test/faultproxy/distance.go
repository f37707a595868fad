package faultproxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Distance starts a relay to the server at a URL, through which all data arrives later by half of a round
// trip. It returns the URL with the relay in the place of the server. The relay ends with the test.
func Distance(tb testing.TB, rawURL string, roundTrip time.Duration) (relayed string) {
	tb.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		tb.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	r := &relay{target: u.Host, delay: roundTrip / 2, open: make(map[net.Conn]struct{})} //nolint:mnd // each way
	r.work.Go(func() { r.accept(tb, listener) })
	tb.Cleanup(func() {
		_ = listener.Close()
		r.close()
		r.work.Wait()
	})
	u.Host = listener.Addr().String()
	return u.String()
}

type relay struct {
	target string
	delay  time.Duration
	work   sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]struct{}
	closed bool
}

func (r *relay) accept(tb testing.TB, listener net.Listener) {
	for {
		client, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			tb.Error(err)
			return
		}
		server, err := new(net.Dialer).DialContext(context.Background(), "tcp", r.target)
		if err != nil || !r.add(client, server) {
			_ = client.Close()
			continue
		}
		r.work.Go(func() { r.carry(server, client) })
		r.work.Go(func() { r.carry(client, server) })
	}
}

func (r *relay) add(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		r.open[c] = struct{}{}
	}
	if r.closed {
		_ = conns[len(conns)-1].Close()
	}
	return !r.closed
}

func (r *relay) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for c := range r.open {
		_ = c.Close()
	}
}

// parcel is data that is to arrive at a time.
type parcel struct {
	at   time.Time
	data []byte
}

// carry carries one direction. What has arrived at the relay waits without holding up what follows.
func (r *relay) carry(to, from net.Conn) {
	const chunk, mostOnTheWay = 64 << 10, 1024
	way := make(chan parcel, mostOnTheWay)
	r.work.Go(func() {
		defer func() { _ = to.Close() }()
		for p := range way {
			<-time.After(time.Until(p.at))
			if _, err := to.Write(p.data); err != nil {
				_ = from.Close() // ends the reader
			}
		}
	})
	defer close(way)
	for {
		data := make([]byte, chunk)
		n, err := from.Read(data)
		if n > 0 {
			way <- parcel{time.Now().Add(r.delay), data[:n]}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				_ = to.Close()
			}
			return
		}
	}
}

package faultproxy_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/internal/test/faultproxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is the time to wait for an event that must happen, moment for one that must not.
const (
	patience = time.Minute
	moment   = 50 * time.Millisecond
)

// echo starts a server that returns what it receives, and returns its address. heard gets the received data.
func echo(t *testing.T) (addr string, heard <-chan string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got, ended := make(chan string, 100), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				buf := make([]byte, 1<<10)
				for {
					n, err := conn.Read(buf)
					if err != nil {
						got <- err.Error()
						return
					}
					got <- string(buf[:n])
					_, _ = conn.Write(buf[:n])
				}
			}()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	return l.Addr().String(), got
}

func dial(t *testing.T, p *faultproxy.Proxy) (net.Conn, error) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.Addr())
	if err == nil {
		t.Cleanup(func() { conn.Close() })
	}
	return conn, err
}

func mustDial(t *testing.T, p *faultproxy.Proxy) net.Conn {
	t.Helper()
	conn, err := dial(t, p)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// ask sends a text and returns the reply that arrives within a time.
func ask(conn net.Conn, text string, within time.Duration) (string, error) {
	if _, err := io.WriteString(conn, text); err != nil {
		return "", err
	}
	_ = conn.SetReadDeadline(time.Now().Add(within))
	buf := make([]byte, len(text))
	_, err := io.ReadFull(conn, buf)
	return string(buf), err
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func wantCarried(t *testing.T, conn net.Conn) {
	t.Helper()
	if answer, err := ask(conn, "hello", patience); err != nil || answer != "hello" {
		t.Errorf("the answer is %q, %v; want it carried", answer, err)
	}
}

func TestAProxyCarriesUntilItIsToldOtherwise(t *testing.T) {
	addr, _ := echo(t)
	p := faultproxy.Start(t, addr)
	conn := mustDial(t, p)
	wantCarried(t, conn)
	p.New(faultproxy.Silent)
	wantCarried(t, conn) // which was there
	if n := p.Connections(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

func TestExistingConnectionsMeetWithFaults(t *testing.T) {
	addr, heard := echo(t)
	p := faultproxy.Start(t, addr)
	conn := mustDial(t, p)
	wantCarried(t, conn)
	<-heard
	p.Existing(faultproxy.Silent)
	if answer, err := ask(conn, "lost", moment); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a silent connection: %q, %v", answer, err)
	}
	conn.Close()
	select {
	case text := <-heard:
		t.Errorf("the server got %q, want nothing, not even the end of the connection", text)
	case <-time.After(moment):
	}
	conn = mustDial(t, p)
	wantCarried(t, conn) // a new one
	<-heard
	p.Existing(faultproxy.Reset)
	if _, err := ask(conn, "lost", patience); !isReset(err) {
		t.Errorf("a connection that is reset: %v", err)
	}
	if text := <-heard; text == "lost" {
		t.Error("the server got what was sent after the reset")
	}
}

func TestNewConnectionsMeetWithFaults(t *testing.T) {
	addr, heard := echo(t)
	p := faultproxy.Start(t, addr)
	p.New(faultproxy.Refused)
	if _, err := dial(t, p); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("refused: %v", err)
	}
	p.New(faultproxy.Reset)
	conn, err := dial(t, p) // which may be told already
	if err == nil {
		_, err = ask(conn, "lost", patience)
	}
	if !isReset(err) {
		t.Errorf("reset: %v", err)
	}
	p.New(faultproxy.Silent)
	if answer, err := ask(mustDial(t, p), "lost", moment); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("silent: %q, %v", answer, err)
	}
	if len(heard) > 0 {
		t.Errorf("the server got %q", <-heard)
	}
	p.New(faultproxy.None)
	wantCarried(t, mustDial(t, p))
}

func TestTheNextReplyIsLostAfterItsRequestHasArrived(t *testing.T) {
	for name, fault := range map[string]faultproxy.Fault{"reset": faultproxy.Reset,
		"silent": faultproxy.Silent} {
		t.Run(name, func(t *testing.T) {
			addr, heard := echo(t)
			p := faultproxy.Start(t, addr)
			conn := mustDial(t, p)
			wantCarried(t, conn)
			<-heard
			p.NextReply(fault)
			if answer, err := ask(conn, "pay", 20*moment); err == nil {
				t.Errorf("the answer is %q", answer)
			}
			if text := <-heard; text != "pay" {
				t.Errorf("the server got %q", text)
			}
			wantCarried(t, mustDial(t, p)) // it was one reply
		})
	}
}

func TestADelayedRequestArrivesAfterItsClientHasGone(t *testing.T) {
	addr, heard := echo(t)
	p := faultproxy.Start(t, addr)
	conn := mustDial(t, p)
	wantCarried(t, conn)
	<-heard
	p.DelayNextRequest(2 * moment)
	begun := time.Now()
	if _, err := io.WriteString(conn, "pay"); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if text, took := <-heard, time.Since(begun); text != "pay" || took < 2*moment {
		t.Errorf("the server got %q after %v", text, took)
	}
	wantCarried(t, mustDial(t, p)) // it was one request
}

func TestASlowNetworkTakesItsTime(t *testing.T) {
	addr, _ := echo(t)
	p := faultproxy.Start(t, addr)
	conn := mustDial(t, p)
	p.Slow(1000)
	begun := time.Now()
	if _, err := ask(conn, string(make([]byte, 100)), patience); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took < 200*time.Millisecond { // there and back
		t.Errorf("100 bytes there and back took %v at 1,000 bytes a second", took)
	}
}

func TestAServerThatTellsWhereItIsTellsOfItsProxy(t *testing.T) {
	l, p := faultproxy.Listen(t)
	defer l.Close()
	if l.Addr().String() != p.Addr() {
		t.Errorf("the listener is at %v, the proxy at %s", l.Addr(), p.Addr())
	}
	conn := mustDial(t, p)
	if _, err := io.WriteString(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	got, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	buf := make([]byte, 5)
	if _, err := io.ReadFull(got, buf); err != nil || string(buf) != "hello" {
		t.Errorf("%q, %v", buf, err)
	}
}

// A round trip takes the time, and what is sent together does not take it twice.
func TestDistance(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn) }()
		}
	}()
	const roundTrip = 40 * time.Millisecond
	u, err := url.Parse(faultproxy.Distance(t, "tcp://"+echo.Addr().String(), roundTrip))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	began := time.Now()
	for range 10 {
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Millisecond)
	}
	if _, err := io.ReadFull(conn, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < roundTrip || took > 8*roundTrip {
		t.Errorf("ten writes were answered after %v; want one round trip of %v after the last", took, roundTrip)
	}
}

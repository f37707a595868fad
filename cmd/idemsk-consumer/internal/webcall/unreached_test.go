package webcall_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A service to which no connection is made did not get the event: the attempt is not counted, and the outcome
// is known.
func TestServiceThatIsNotReached(t *testing.T) {
	t.Parallel()
	handled := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the service is called") })
	plain, secure := httptest.NewServer(handled), httptest.NewUnstartedServer(handled)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	silent, full, closing := listener(t, nil), fullBacklog(t), listener(t, func(c net.Conn) { _ = c.Close() })
	gone := listener(t, nil)
	_ = gone.Close()
	for name, tc := range map[string]struct {
		url     string
		timeout time.Duration
		says    string
	}{
		"nobody listens":             {"http://" + gone.Addr().String(), patience, "connection refused"},
		"no such host":               {"http://service.invalid", patience, "service.invalid"},
		"no answer to the SYN":       {"http://" + full, time.Second, "deadline exceeded"},
		"no answer to the SYN, long": {"http://" + full, patience, "i/o timeout"},
		"the certificate of another host": {strings.Replace(secure.URL, "127.0.0.1", "localhost", 1), patience,
			"certificate"},
		"a port without TLS":           {"https" + strings.TrimPrefix(plain.URL, "http"), patience, "TLS handshake"},
		"no TLS handshake":             {"https://" + silent.Addr().String(), time.Second, "deadline exceeded"},
		"no TLS handshake, long":       {"https://" + silent.Addr().String(), patience, "handshake timeout"},
		"a TLS handshake that is lost": {"https://" + closing.Addr().String(), patience, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := clientOf(t, tc.url, tc.timeout).Call(t.Context(), []byte("{}"))
			if classOf(err) != "unavailable" || !strings.Contains(err.Error(), "is not reached, is it running? ") ||
				!strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s, %v; want unavailable, with %q", classOf(err), err, tc.says)
			}
		})
	}
}

// A call whose context ends while it connects was not sent.
func TestCallThatIsGivenUpBeforeItIsConnected(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := clientOf(t, "http://"+fullBacklog(t), patience).Call(ctx, nil)
	if classOf(err) != "unavailable" || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%s, %v; want unavailable", classOf(err), err)
	}
}

// listener listens on a port. It passes connections to f, and accepts none without f.
func listener(t *testing.T, f func(net.Conn)) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if f != nil {
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				f(c)
			}
		}()
	}
	return l
}

// fullBacklog returns the address of a port that does not answer: it accepts nothing, and its queue is full.
func fullBacklog(t *testing.T) string {
	t.Helper()
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	check(err)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	check(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	check(syscall.Listen(fd, 0))
	name, err := syscall.Getsockname(fd)
	check(err)
	at := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	c, err := net.Dial("tcp", at) // the only one that fits
	check(err)
	t.Cleanup(func() { _ = c.Close() })
	return at
}

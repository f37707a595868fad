//go:build servers

package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/idem/redisstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/idem/storetest"
	"github.com/idemsk/idemsk/internal/test/redisserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

// The servers shared by the tests that do not change them.
var (
	server  *redisserver.Server
	valkey  *redisserver.Server
	cluster *redisserver.Cluster
)

func TestMain(m *testing.M) {
	stop, err := startShared(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, errors.Join(err, stop()))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent(), goleak.Cleanup(func(code int) {
		if err := stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		os.Exit(code)
	}))
}

func startShared(ctx context.Context) (stop func() error, err error) {
	var started []io.Closer
	stop = func() error {
		var errs []error
		for _, s := range started {
			errs = append(errs, s.Close())
		}
		return errors.Join(errs...)
	}
	if server, err = redisserver.Start(ctx, redisserver.Config{}); err != nil {
		return stop, err
	}
	started = append(started, server)
	if valkey, err = redisserver.Start(ctx, redisserver.Config{Kind: redisserver.Valkey}); err != nil {
		return stop, err
	}
	started = append(started, valkey)
	if cluster, err = redisserver.StartCluster(ctx, redisserver.Config{}); err != nil {
		return stop, err
	}
	started = append(started, cluster)
	return stop, nil
}

// ownServer starts a server for a test that stops or reconfigures it.
func ownServer(tb testing.TB, settings map[string]string) *redisserver.Server {
	tb.Helper()
	return testkit.Run(tb, redisserver.Start, redisserver.Config{Settings: settings})
}

func newClient(tb testing.TB, url string, options ...func(*redis.UniversalOptions)) redis.UniversalClient {
	tb.Helper()
	client, err := redisstore.NewClient(url, options...)
	if err != nil {
		tb.Fatal(err)
	}
	testkit.CloseAtEnd(tb, client)
	return client
}

// unhurried is for tests that compare exact answers. On a busy machine an attempt can time out and is then
// retried; the retry of a steal is answered as a claim, and the retry of a deletion finds the key absent.
func unhurried(o *redis.UniversalOptions) { o.ReadTimeout, o.WriteTimeout = time.Minute, time.Minute }

var names atomic.Int64

// unique returns a name that is unique at the server.
func unique(prefix string) string { return fmt.Sprint(prefix, names.Add(1)) }

func newStore(tb testing.TB, client redis.UniversalClient, cfg redisstore.Config) *redisstore.Store {
	tb.Helper()
	if cfg.Prefix == "" {
		cfg.Prefix = unique("p")
	}
	s, err := redisstore.New(client, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func do(tb testing.TB, srv *redisserver.Server, args ...any) any {
	tb.Helper()
	answer, err := srv.Do(tb.Context(), args...)
	if err != nil {
		tb.Fatal(err)
	}
	return answer
}

// The clocks of the suite.
const (
	stands = iota // a fixed time, the same for the store and the test: a number in the scripts
	ticks         // the server's clock plus an offset, so that times differ by the test's own duration
)

// tolerance is far above the duration of a test on a busy machine. The fixed clock checks exact times.
const tolerance = 4 * time.Second

// harness returns a store with a new prefix. Advance changes the clock expression in the scripts. A changed
// script is a new script, which the server learns through the fallback to EVAL.
func harness(tb testing.TB, client redis.UniversalClient, w *wire, clock int) storetest.Harness {
	tb.Helper()
	st := newStore(tb, client, redisstore.Config{})
	h := storetest.Harness{
		Store: st, Skew: st.MaxClockSkew(), LoseReply: w.loseReply,
		Raw: func(tb testing.TB, key string) []byte { return raw(tb, client, st.Name(key)) },
	}
	if clock == stands {
		c := storetest.NewClock()
		set := func() { st.SetClock(strconv.FormatInt(c.Now().UnixMilli(), 10)) }
		h.Now, h.Advance = c.Now, func(d time.Duration) { c.Advance(d); set() }
		set()
	} else {
		var ahead time.Duration
		h.Tolerance = tolerance
		// the server uses the clock of this machine
		h.Now = func() time.Time { return time.Now().Truncate(time.Millisecond).Add(ahead) }
		h.Advance = func(d time.Duration) {
			ahead += d
			st.SetClock(fmt.Sprintf("%s + %d", redisstore.ServerClock, ahead.Milliseconds()))
		}
	}
	h.Sweep = func(tb testing.TB) { sweep(tb, client, st, h.Now()) }
	return h
}

// raw returns a value and the time of its deletion as text, nil if there is no value.
func raw(tb testing.TB, client redis.UniversalClient, name string) []byte {
	tb.Helper()
	value, err := client.Get(tb.Context(), name).Result()
	if errors.Is(err, redis.Nil) {
		return nil
	}
	if err != nil {
		tb.Fatal(err)
	}
	return fmt.Appendf(nil, "deleted at %v\n%q", client.PExpireTime(tb.Context(), name).Val(), value)
}

// sweep deletes the entries whose time of deletion has come, as the server does.
func sweep(tb testing.TB, client redis.UniversalClient, st *redisstore.Store, now time.Time) {
	tb.Helper()
	for entry, err := range st.List(tb.Context(), store.ListQuery{}) {
		if err != nil {
			tb.Fatal(err)
		}
		if now.Before(entry.Expiry) {
			continue
		}
		if err := client.Del(tb.Context(), st.Name(entry.Key)).Err(); err != nil {
			tb.Fatal(err)
		}
	}
}

// wire is a connection wrapper between a client and its servers. It loses replies and counts round trips.
type wire struct {
	mu    sync.Mutex
	armed bool
	lost  atomic.Int64
	trips atomic.Int64
}

// option makes a client use the wire.
func (w *wire) option(o *redis.UniversalOptions) {
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &wiredConn{Conn: conn, wire: w}, nil
	}
}

// loseReply drops the next answer of a script and breaks its connection.
func (w *wire) loseReply() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = true
}

func (w *wire) loses() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.armed
	w.armed = false
	if was {
		w.lost.Add(1)
	}
	return was
}

type wiredConn struct {
	net.Conn
	wire   *wire
	sent   atomic.Bool // a request was sent and not answered yet
	script atomic.Bool // a script
}

func (c *wiredConn) Write(p []byte) (int, error) {
	c.sent.Store(true)
	if bytes.Contains(p, []byte("\r\nevalsha\r\n")) || bytes.Contains(p, []byte("\r\neval\r\n")) {
		c.script.Store(true)
	}
	return c.Conn.Write(p)
}

func (c *wiredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n == 0 || !c.sent.Swap(false) {
		return n, err
	}
	c.wire.trips.Add(1)
	if c.script.Swap(false) && !bytes.Contains(p[:n], []byte("NOSCRIPT")) && c.wire.loses() {
		c.Close()
		return 0, io.EOF
	}
	return n, err
}

func request(key string, owner int) store.ClaimRequest {
	return store.ClaimRequest{Key: key, Owner: fmt.Sprint("owner-", owner), Source: "payments-3@17",
		Lease: 30 * time.Second, Retention: time.Hour, TakeOver: true}
}

func settlement(entry store.Entry, op store.SettleOp) store.Settlement {
	return store.Settlement{
		Op: op, Key: entry.Key, Token: entry.Token, Owner: entry.Owner, Retention: time.Hour,
		Lease:   time.Minute,
		Failure: &store.Failure{Code: store.CodeError, Message: "boom"},
	}
}

func claim(tb testing.TB, s *redisstore.Store, req store.ClaimRequest) store.ClaimResult {
	tb.Helper()
	return s.Claim(tb.Context(), []store.ClaimRequest{req})[0]
}

func mustClaim(tb testing.TB, s *redisstore.Store, req store.ClaimRequest) store.Entry {
	tb.Helper()
	res := claim(tb, s, req)
	if res.State != store.Claimed {
		tb.Fatalf("state %d, error %v", res.State, res.Err)
	}
	return res.Entry
}

func settle(tb testing.TB, s *redisstore.Store, set store.Settlement) error {
	tb.Helper()
	return errors.Join(s.Settle(tb.Context(), []store.Settlement{set})...)
}

// wantError checks that the error contains all of the texts.
func wantError(tb testing.TB, err error, texts ...string) {
	tb.Helper()
	if err == nil {
		tb.Errorf("no error; want one with %q", texts)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			tb.Errorf("%v\nwant %q in it", err, text)
		}
	}
	if strings.Contains(err.Error(), redisserver.Password) {
		tb.Errorf("the password is in the error: %v", err)
	}
}

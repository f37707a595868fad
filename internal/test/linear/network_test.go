package linear_test

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/idemsk/idemsk/internal/test/faultproxy"
	"github.com/idemsk/idemsk/internal/test/linear"
)

// patience is the time after which the clients give up a request and send it again. A busy machine should
// rarely take as long. Those of DynamoDB Local wait longer, because it is slow.
const (
	patience     = time.Second
	longPatience = 3 * time.Second
)

// network is the network of one client: a proxy of its own, and the number of connections that it uses.
type network struct {
	proxy    *faultproxy.Proxy
	patience time.Duration // of the client

	mu    sync.Mutex
	calls int // of sent
	used  int // connections since then
}

// newNetwork starts a network between a client and the server, which a URL names, and returns the URL for the
// client.
func newNetwork(t *testing.T, url string, patience time.Duration) (n *network, proxied string) {
	t.Helper()
	proxy, proxied := faultproxy.StartURL(t, url)
	return &network{proxy: proxy, patience: patience}, proxied
}

// client returns the client of a store that uses the network.
func (n *network) client(s linear.Store) linear.Client {
	return linear.Client{Store: s, Disturb: n.disturb, Sent: n.sent}
}

// disturb cuts the connections before a request or after one, makes them silent, or delays a request: shorter
// than the client waits, or longer.
func (n *network) disturb(r *rand.Rand) {
	faults := []func(){
		func() { n.proxy.Existing(faultproxy.Reset) },
		func() { n.proxy.Existing(faultproxy.Silent) },
		func() { n.proxy.NextReply(faultproxy.Reset) },
		func() { n.proxy.NextReply(faultproxy.Silent) },
		func() { n.proxy.DelayNextRequest(time.Duration(r.Int64N(int64(n.patience)))) },
		func() { n.proxy.DelayNextRequest(n.patience + time.Duration(r.Int64N(int64(n.patience)))) },
	}
	faults[r.IntN(len(faults))]()
}

// dial makes a connection of the client.
func (n *network) dial(ctx context.Context, kind, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, kind, addr)
	if err != nil {
		return nil, err
	}
	return &metered{Conn: conn, network: n}, nil
}

// sent returns the number of connections on which something was sent since the call before.
func (n *network) sent() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	used := n.used
	n.calls++
	n.used = 0
	return used
}

// metered is a connection that counts itself when it is used.
type metered struct {
	net.Conn
	network *network
	counted int // the last call of sent before it was counted
}

// Write implements net.Conn.
func (c *metered) Write(p []byte) (int, error) {
	n := c.network
	n.mu.Lock()
	if c.counted != n.calls {
		c.counted = n.calls
		n.used++
	}
	n.mu.Unlock()
	return c.Conn.Write(p)
}

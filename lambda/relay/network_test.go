package main

import (
	"net"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/idemsk/idemsk/internal/test/faultproxy"
)

// newProxiedCloud returns one that is reached through a proxy.
func newProxiedCloud(t *testing.T) (*cloud, *faultproxy.Proxy) {
	t.Helper()
	a := newCloud(t)
	var proxy *faultproxy.Proxy
	proxy, a.url = faultproxy.StartURL(t, a.url)
	t.Cleanup(func() { proxy.Existing(faultproxy.Reset) })
	return a, proxy
}

// Kafka's connections and DynamoDB's fall silent between two batches, as in a sandbox that was frozen. At
// most one batch is reported.
func TestRelayRecoversFromSilentConnections(t *testing.T) {
	// Kafka has a second for a question and one for a wave, DynamoDB two for an attempt
	const soon = 6 * time.Second
	var brokers *faultproxy.Proxy
	c := newCluster(t, kfake.ListenFn(func(string, string) (l net.Listener, err error) {
		l, brokers = faultproxy.Listen(t)
		return l, nil
	}))
	a, services := newProxiedCloud(t)
	s := start(t, a, c, nil)
	deliver := func(want []string, records ...string) {
		t.Helper()
		begun := time.Now()
		if reported := s.deliver(records...); !slices.Equal(reported, want) {
			t.Errorf("%q are reported, want %q: %s", reported, want, s.logs.String())
		}
		if took := time.Since(begun); took > soon {
			t.Errorf("a batch took %v, want at most %v", took, soon)
		}
	}
	deliver(nil, insert(1, "t", "k", "one"), insert(2, "missing", "k", "parked"))
	brokers.Existing(faultproxy.Silent)
	deliver([]string{"3"}, insert(3, "t", "k", "three"))
	deliver(nil, insert(3, "t", "k", "three"))
	services.Existing(faultproxy.Silent)
	deliver(nil, insert(4, "missing", "k", "parked"))
	brokers.Existing(faultproxy.Silent)
	brokers.New(faultproxy.Silent)
	deliver([]string{"5"}, insert(5, "t", "k", "five"))
}

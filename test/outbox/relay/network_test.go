package relay_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/idemsk/idemsk/internal/test/faultproxy"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/relay"
)

const (
	timeout = 500 * time.Millisecond
	soon    = 5 * time.Second // above the time of a metadata request, a send and the closing of a client
)

// newProxiedCluster returns a cluster whose broker is behind a proxy.
func newProxiedCluster(t *testing.T) (c *kfake.Cluster, proxy *faultproxy.Proxy) {
	t.Helper()
	c = newCluster(t, kfake.ListenFn(func(string, string) (l net.Listener, err error) {
		l, proxy = faultproxy.Listen(t)
		return l, nil
	}))
	return c, proxy
}

// The connections to Kafka fail. Events sent meanwhile are unconfirmed, or sent over new connections. Later
// events arrive.
func TestProducerContinuesOverNewConnections(t *testing.T) {
	for name, fault := range map[string]faultproxy.Fault{"reset": faultproxy.Reset,
		"silent": faultproxy.Silent} {
		for of, topic := range map[string]string{"a topic that it knows": one,
			"a topic that it asks for": many} {
			t.Run(name+", "+of, func(t *testing.T) {
				t.Parallel()
				c, proxy := newProxiedCluster(t)
				p := newProducer(t, c, timeout)
				send := func(topic string, n int) error {
					begun := time.Now()
					err := p.Send(t.Context(), []outbox.Event{event(topic, "k", n, 10)})[0]
					if took := time.Since(begun); took > soon {
						t.Errorf("event %d took %v, want at most %v", n, took, soon)
					}
					return err
				}
				if err := send(one, 0); err != nil {
					t.Fatal(err)
				}
				proxy.Existing(fault)
				if err := send(topic, 1); err != nil && !errors.Is(err, relay.ErrUnavailable) {
					t.Error(err)
				}
				if err := send(topic, 1); err != nil {
					t.Errorf("over a new connection: %v", err)
				}
				proxy.Existing(fault)
				_ = p.Ping(t.Context()) // it may be the first to fail
				begun := time.Now()
				if err := p.Ping(t.Context()); err != nil || time.Since(begun) > soon {
					t.Errorf("over a new connection: %v after %v", err, time.Since(begun))
				}
			})
		}
	}
}

// A producer can be closed while the cluster is silent.
func TestProducerOfASilentClusterCanBeClosed(t *testing.T) {
	c, proxy := newProxiedCluster(t)
	p := newProducer(t, c, timeout)
	if err := p.Send(t.Context(), []outbox.Event{event(one, "k", 0, 10)})[0]; err != nil {
		t.Fatal(err)
	}
	proxy.New(faultproxy.Silent)
	proxy.Existing(faultproxy.Silent)
	begun := time.Now()
	for n := range 2 {
		if err := p.Send(t.Context(), []outbox.Event{event(one, "k", n, 10)})[0]; !errors.Is(err,
			relay.ErrUnavailable) {
			t.Errorf("%v, want ErrUnavailable", err)
		}
	}
	p.Close()
	if took := time.Since(begun); took > soon {
		t.Errorf("to send twice and to close took %v, want at most %v", took, soon)
	}
}

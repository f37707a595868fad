//go:build servers

package pgoutbox_test

import (
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/internal/test/faultproxy"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
)

const (
	shortLimit = 300 * time.Millisecond // of a round trip and of an idle transaction in these tests
	soon       = 5 * time.Second        // far above shortLimit, far below patience
)

// behindProxy returns a pool that connects through a proxy, or through one that a relay takes for a pooler.
func behindProxy(t *testing.T, pooler bool) (*pgxpool.Pool, *faultproxy.Proxy) {
	t.Helper()
	proxy, url := faultproxy.StartURL(t, postgres.URL())
	pool := newPool(t, url)
	if pooler {
		pool = newPooled(t, url)
	}
	t.Cleanup(func() { proxy.Existing(faultproxy.Reset) }) // pgx waits 15 s to close a silent connection
	return pool, proxy
}

// stopsSoon checks that a relay stops soon.
func stopsSoon(t *testing.T, stop func()) {
	t.Helper()
	begun := time.Now()
	stop()
	if took := time.Since(begun); took > soon {
		t.Errorf("the relay stopped after %v, want at most %v", took, soon)
	}
}

// A relay's connections become silent at some moment. The relay continues over new ones.
func TestRelayContinuesOverNewConnections(t *testing.T) {
	cfg := pgoutbox.RelayConfig{Workers: 2, PollInterval: 20 * time.Millisecond, RoundTripTimeout: shortLimit,
		IdleLimit: shortLimit}
	for name, polls := range map[string]bool{"it listens": false, "it polls": true} {
		for when, atSend := range map[string]bool{"while it waits": false, "while Kafka is asked": true} {
			t.Run(name+", "+when, func(t *testing.T) {
				direct := newPool(t, postgres.URL())
				o, table := newOutbox(t, direct, pgoutbox.Config{})
				pool, proxy := behindProxy(t, polls)
				kafka := &sender{}
				if atSend {
					once := sync.OnceFunc(func() { proxy.Existing(faultproxy.Silent) })
					kafka.reject = func(outbox.Event) bool { once(); return false }
				}
				stop := run(t, pool, o, kafka, cfg)
				for i := range 3 {
					publish(t, direct, o,
						outbox.Event{Topic: "t", Key: []byte("k"), Value: []byte{byte('0' + i)}})
					begun := time.Now()
					eventually(t, direct, 0, pendingIn(table))
					if took := time.Since(begun); took > soon {
						t.Errorf("an event was published after %v, want at most %v", took, soon)
					}
					if !atSend {
						proxy.Existing(faultproxy.Silent)
					}
				}
				stopsSoon(t, stop)
			})
		}
	}
}

// PostgreSQL is silent, and the relay is told to stop.
func TestRelayStopsWhilePostgreSQLIsSilent(t *testing.T) {
	for when, atSend := range map[string]bool{"while it waits": false, "while Kafka is asked": true} {
		t.Run(when, func(t *testing.T) {
			direct := newPool(t, postgres.URL())
			o, table := newOutbox(t, direct, pgoutbox.Config{})
			pool, proxy := behindProxy(t, false)
			asked := make(chan struct{})
			silence := sync.OnceFunc(func() {
				proxy.New(faultproxy.Silent)
				proxy.Existing(faultproxy.Silent)
				close(asked)
			})
			kafka := &sender{reject: func(outbox.Event) bool {
				if atSend {
					silence()
				}
				return false
			}}
			stop := run(t, pool, o, kafka,
				pgoutbox.RelayConfig{PollInterval: 20 * time.Millisecond, RoundTripTimeout: shortLimit})
			publish(t, direct, o, outbox.Event{Topic: "t", Key: []byte("k")})
			if !atSend {
				eventually(t, direct, 0, pendingIn(table))
				silence()
			}
			<-asked
			stopsSoon(t, stop)
		})
	}
}

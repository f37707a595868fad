package kafka_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/idemsk/idemsk/internal/kafkaauth/authtest"
	"github.com/idemsk/idemsk/kafka/consumer"
)

func TestWrongCredentialsEndRun(t *testing.T) {
	inBubble(t, 1, func(f *fixture) {
		var refuse atomic.Bool
		refuse.Store(true)
		f.refuseCredentials(&refuse)
		f.start(func(cfg *consumer.Config) {
			cfg.Options = append(cfg.Options,
				kgo.SASL(plain.Auth{User: "ledger", Pass: "wrong"}.AsMechanism()))
		}).fails("the brokers refuse the credentials: check the user, the password")
	}, kfake.EnableSASL(), kfake.Superuser("PLAIN", "ledger", "right"))
}

// Credentials that are withdrawn while the process runs end Run within two minutes. A refusal that passes, as
// when a password is rotated, does not.
func TestCredentialsThatAreWithdrawn(t *testing.T) {
	for name, tc := range map[string]struct {
		protocol string
		passes   time.Duration // 0: it stays
	}{
		"classic": {"cooperative", 0}, "incremental": {"incremental", 0},
		"classic, passes": {"cooperative", 20 * time.Second}, "incremental, passes": {"incremental", 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 2, func(f *fixture) {
				var refuse atomic.Bool
				f.refuseCredentials(&refuse)
				network := &outage{dial: f.network.DialContext}
				f.options = []kgo.Opt{kgo.Dialer(network.Dial),
					kgo.SASL(plain.Auth{User: "ledger", Pass: "right"}.AsMechanism())}
				c := f.start(protocols[tc.protocol])
				f.produce(0, 1, 0, 1)
				f.until("the records are committed", func() bool { return f.offsets()[0] == 1 && f.offsets()[1] == 1 })
				for range 3 {
					refuse.Store(true)
					network.set(true) // the brokers close the connections
					network.set(false)
					if tc.passes == 0 {
						began := time.Now()
						c.fails("an operator must act", "have refused the credentials for 4", "check the user, the password")
						if took := time.Since(began); took > 2*time.Minute {
							f.Errorf("it took %v", took)
						}
						return
					}
					<-time.After(tc.passes)
					refuse.Store(false)
					<-time.After(2 * time.Minute)
				}
				f.produce(1, 1, 0, 1)
				f.until("the new records are committed", func() bool { return f.offsets()[0] == 2 && f.offsets()[1] == 2 })
				c.mustEnd()
			}, kfake.EnableSASL(), kfake.Superuser("PLAIN", "ledger", "right"))
		})
	}
}

// A client certificate that the brokers refuse while the process runs ends Run too.
func TestCertificateThatIsWithdrawn(t *testing.T) {
	cert, _, _ := authtest.Certificate(t)
	var refuse atomic.Bool
	brokers := kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13,
		ClientAuth: tls.RequireAnyClientCert, VerifyConnection: func(tls.ConnectionState) error {
			if refuse.Load() {
				return errors.New("the certificate is revoked")
			}
			return nil
		}})
	inBubble(t, 1, func(f *fixture) {
		network := &outage{dial: f.network.DialContext}
		f.options = []kgo.Opt{kgo.Dialer(func(ctx context.Context, kind, host string) (net.Conn, error) {
			conn, err := network.Dial(ctx, kind, host)
			if err != nil {
				return nil, err
			}
			return tls.Client(buffer(conn), &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13,
				InsecureSkipVerify: true}), nil
		})}
		c := f.start()
		f.produce(0, 1, 0)
		f.until("the record is committed", func() bool { return f.offsets()[0] == 1 })
		refuse.Store(true)
		network.set(true)
		network.set(false)
		began := time.Now()
		c.fails("an operator must act", "have refused the credentials for 4", "the client certificate")
		if took := time.Since(began); took > 2*time.Minute {
			f.Errorf("it took %v: %s", took, f.lines)
		}
	}, brokers)
}

// buffered is a connection whose Write does not wait for the other side: those of the virtual network do, and
// two sides of TLS that write at once would wait for ever.
type buffered struct {
	net.Conn
	written chan []byte
	closed  chan struct{}
	close   sync.Once
}

func buffer(conn net.Conn) *buffered {
	b := &buffered{Conn: conn, written: make(chan []byte, 1000), closed: make(chan struct{})}
	go func() {
		for {
			select {
			case p := <-b.written:
				_, _ = conn.Write(p)
			case <-b.closed:
				return
			}
		}
	}()
	return b
}

func (b *buffered) Close() error {
	b.close.Do(func() { close(b.closed) })
	return b.Conn.Close()
}

func (b *buffered) Write(p []byte) (int, error) {
	b.written <- bytes.Clone(p)
	return len(p), nil
}

// refuseCredentials has the brokers refuse all credentials while refuse is set.
func (f *fixture) refuseCredentials(refuse *atomic.Bool) {
	f.cluster.ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
		f.cluster.KeepControl()
		resp, _ := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		resp.ErrorCode = kerr.SaslAuthenticationFailed.Code
		return resp, nil, refuse.Load()
	})
}

// silent is a network whose connections are accepted, and whose hosts do not answer while it is set.
type silent struct {
	is    atomic.Bool
	reset *outage
}

func (s *silent) Dial(ctx context.Context, network, host string) (net.Conn, error) {
	if !s.is.Load() {
		return s.reset.Dial(ctx, network, host)
	}
	here, there := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, there) }()
	return here, nil
}

// A process whose brokers do not answer ends in time, at its start and later.
func TestProcessEndsWithSilentBrokers(t *testing.T) {
	for name, tc := range map[string]struct {
		works bool
		after time.Duration // of silence
	}{
		"at once": {false, 0}, "while it connects": {false, 2 * time.Second}, "at the next attempt": {false, 15 * time.Second},
		"later": {true, 2 * time.Second}, "later, while it connects": {true, 15 * time.Second},
		"after the session": {true, 3 * time.Minute},
	} {
		for protocolName, protocol := range protocols {
			t.Run(name+", "+protocolName, func(t *testing.T) {
				inBubble(t, 2, func(f *fixture) {
					s := &silent{reset: &outage{dial: f.network.DialContext}}
					c := f.start(protocol, func(cfg *consumer.Config) {
						cfg.Options, cfg.DrainTimeout = append(cfg.Options, kgo.Dialer(s.Dial)), time.Second
					})
					s.is.Store(!tc.works)
					if tc.works {
						f.produce(0, 1, 0, 1)
						f.until("the records are committed", func() bool { return f.offsets()[0] == 1 && f.offsets()[1] == 1 })
						s.is.Store(true)
						s.reset.set(true)
					}
					<-time.After(tc.after)
					began := time.Now()
					c.mustEnd()
					if took := time.Since(began); took > 7*time.Second {
						f.Errorf("Run ended after %v, want at most the drain timeout of 1 s and 6 s", took)
					}
				})
			})
		}
	}
}

// A broker that refuses connections, and one that is silent.
func TestBrokersThatDoNotAnswerAtTheStart(t *testing.T) {
	for name, dial := range map[string]func(context.Context, string, string) (net.Conn, error){
		"refused": func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
		},
		"silent": func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(f *fixture) {
				began := time.Now()
				f.start(func(cfg *consumer.Config) { cfg.Options = []kgo.Opt{kgo.Dialer(dial)} }).fails(
					"no broker of", "answered within 30s: check the addresses, TLS and credentials")
				if took := time.Since(began); took > 45*time.Second {
					f.Errorf("it took %v", took)
				}
				// an end meanwhile is none with an error
				r := f.start(func(cfg *consumer.Config) { cfg.Options = []kgo.Opt{kgo.Dialer(dial)} })
				<-time.After(3*time.Second + 100*time.Millisecond)
				if err := r.end(); err != nil {
					f.Errorf("stopped while it starts: %v", err)
				}
			})
		})
	}
}

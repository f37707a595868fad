package main

import (
	"net"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/idemsk/idemsk/internal/faultproxy"
	"github.com/idemsk/idemsk/internal/secret"
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

// Kafka's connections and DynamoDB's fall silent between two batches, as in a sandbox that was frozen. At most one batch is reported.
func TestRelayRecoversFromSilentConnections(t *testing.T) {
	const soon = 6 * time.Second // Kafka has a second for a question and one for a wave, DynamoDB two for an attempt
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

func TestSecretIsReadAfterConnectionsFallSilent(t *testing.T) {
	t.Parallel()
	a, services := newProxiedCloud(t)
	a.secret = secretOf(t, map[string]string{"username": "relay", "password": "p"})
	cfg := aws.Config{BaseEndpoint: &a.url, Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")}
	s := &login{reader: secret.New(cfg, "arn:of:the:secret", "IDEMSK_KAFKA_SECRET_ARN")}
	read := func() error {
		t.Helper()
		begun := time.Now()
		s.at = time.Time{} // as if it were old
		_, err := s.scram(t.Context())
		if took := time.Since(begun); took > secret.Timeout+time.Second {
			t.Errorf("it took %v, want at most %v", took, secret.Timeout)
		}
		return err
	}
	if err := read(); err != nil {
		t.Fatal(err)
	}
	services.Existing(faultproxy.Silent)
	if err := read(); err != nil {
		t.Errorf("over a new connection: %v", err)
	}
	services.Existing(faultproxy.Silent)
	services.New(faultproxy.Silent)
	if err := read(); err == nil {
		t.Error("nothing answers, and there is no error")
	}
}

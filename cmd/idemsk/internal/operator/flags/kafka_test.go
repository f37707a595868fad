package flags_test

import (
	"crypto/tls"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/clitest"
	"github.com/idemsk/idemsk/internal/kafkaauth/authtest"
)

// Every verb that connects to Kafka authenticates in the same way.
func TestPasswords(t *testing.T) {
	t.Setenv("IDEMSK_KAFKA_USERNAME", "user")
	t.Setenv("IDEMSK_KAFKA_PASSWORD", "secret")
	for method, mechanism := range map[string]string{"plain": "PLAIN", "scram-sha-256": "SCRAM-SHA-256",
		"scram-sha-512": "SCRAM-SHA-512"} {
		brokers := clitest.NewCluster(t, kfake.SeedTopics(1, "payments"), kfake.EnableSASL(),
			kfake.Superuser(mechanism, "user", "secret"))
		if r := clitest.RunWith(t, "a\n", "produce", "--brokers", brokers, "--auth", method,
			"--tls=false"); r.Code != 0 || r.Out != "payments-0@0\n" {
			t.Errorf("%s: %+v", method, r)
		}
		t.Setenv("IDEMSK_KAFKA_PASSWORD", "wrong")
		if r := clitest.RunWith(t, "a\n", "produce", "--brokers", brokers, "--auth", method,
			"--tls=false"); r.Code != 1 || !strings.Contains(r.Err, "--auth") {
			t.Errorf("%s with a wrong password: %+v", method, r)
		}
		t.Setenv("IDEMSK_KAFKA_PASSWORD", "secret")
	}
}

// A password is sent over TLS unless --tls=false.
func TestPasswordsAreSentOverTLS(t *testing.T) {
	t.Setenv("IDEMSK_KAFKA_USERNAME", "user")
	t.Setenv("IDEMSK_KAFKA_PASSWORD", "secret")
	cert, certFile, _ := authtest.Certificate(t)
	brokers := clitest.NewCluster(t, kfake.SeedTopics(1, "payments"),
		kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}}),
		kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "user", "secret"))
	if r := clitest.RunWith(t, "a\n", "produce", "--brokers", brokers, "--auth", "scram-sha-512",
		"--tls-ca", certFile); r.Code != 0 {
		t.Errorf("%+v", r)
	}
	for _, more := range []string{"--tls", "--tls=false"} { // an untrusted certificate, and none
		if r := clitest.RunWith(t, "a\n", "produce", "--brokers", brokers, "--auth", "scram-sha-512",
			more); r.Code != 1 || !strings.Contains(r.Err, "--tls") {
			t.Errorf("%s: %+v", more, r)
		}
	}
}

func TestMutualTLS(t *testing.T) {
	t.Parallel()
	cert, certFile, keyFile := authtest.Certificate(t)
	brokers := clitest.NewCluster(t, kfake.SeedTopics(1, "payments"),
		kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAnyClientCert}))
	if r := clitest.RunWith(t, "a\n", "produce", "--brokers", brokers, "--auth", "mtls", "--tls-ca", certFile,
		"--tls-cert", certFile, "--tls-key", keyFile); r.Code != 0 {
		t.Errorf("%+v", r)
	}
	if r := clitest.RunWith(t, "a\n", "produce", "--brokers", brokers, "--tls-ca", certFile); r.Code != 1 {
		t.Errorf("without a certificate: %+v", r)
	}
	for says, args := range map[string][]string{
		"--tls-ca is \"nowhere.pem\"":   {"--tls-ca", "nowhere.pem"},
		"it contains no certificate":    {"--tls-ca", keyFile},
		"--tls-key is missing or wrong": {"--auth", "mtls", "--tls-cert", certFile, "--tls-key", certFile},
		"the key: it does not begin with": {"--auth", "mtls", "--tls-cert", certFile,
			"--tls-key", os.DevNull + "/none"},
	} {
		if r := clitest.RunWith(t, "a\n",
			append([]string{"produce", "--brokers", brokers}, args...)...); r.Code != 2 ||
			!strings.Contains(r.Err, says) {
			t.Errorf("%q: %+v; want %q", args, r, says)
		}
	}
}

// All verbs say the same if no broker answers.
func TestNoBrokerAnswers(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	wantsPassword := clitest.NewCluster(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "user", "secret"))
	for _, test := range [][]string{
		{"produce", "--brokers", wantsPassword},
		{"topic", "create", "x", "--brokers", silent.Addr().String()},
		{"produce", "--brokers", "127.0.0.1:1"},
	} {
		begun := time.Now()
		r := clitest.RunWith(t, "", test...)
		if took := time.Since(begun); r.Code != 1 ||
			!strings.Contains(r.Err, "no Kafka broker answers at ") || strings.Count(r.Err, "\n") != 1 ||
			took >= 10*time.Second {
			t.Errorf("%v: %+v after %v; want one message, and exit 1 within 10 s", test, r, took)
		}
	}
}

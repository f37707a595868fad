package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/idemsk/idemsk/internal/secret"
)

// certificate is one for 127.0.0.1 that signs itself, in PEM too.
func certificate(t *testing.T) (cert tls.Certificate, certPEM, keyPEM string) {
	t.Helper()
	server := httptest.NewTLSServer(nil) // it brings one
	defer server.Close()
	cert = server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return cert, block("CERTIFICATE", cert.Certificate[0]), block("PRIVATE KEY", key)
}

func secretOf(t *testing.T, fields map[string]string) string {
	t.Helper()
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestSCRAM(t *testing.T) {
	c := newCluster(t, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "relay", "right"), kfake.Superuser("SCRAM-SHA-256", "relay256", "right"),
		kfake.Superuser("PLAIN", "reader", "right"))
	for auth, user := range map[string]string{authSCRAM512: "relay", authSCRAM256: "relay256"} {
		a := newCloud(t)
		a.secret = secretOf(t, map[string]string{"username": user, "password": "right"})
		env := map[string]string{"IDEMSK_KAFKA_AUTH": auth, "IDEMSK_KAFKA_SECRET_ARN": "arn:aws:secretsmanager:us-east-1:000000000000:secret:s", "IDEMSK_KAFKA_TLS": "false"}
		s := start(t, a, c, env)
		if reported := s.deliver(insert(1, "t", "k", "one")); len(reported) != 0 {
			t.Errorf("%s: reported: %s", auth, s.logs.String())
		}
		a.secret = secretOf(t, map[string]string{"username": user, "password": "wrong"})
		if s := start(t, a, c, env); !slices.Equal(s.deliver(insert(2, "t", "k", "two")), []string{"2"}) {
			t.Errorf("%s: a wrong password will do", auth)
		}
	}
	read(t, c, 2, kgo.SASL(plain.Auth{User: "reader", Pass: "right"}.AsMechanism()))
}

// Connections that are made at the same time read the secret once, those of later read it anew: it may have been changed.
func TestSecretIsReadAgain(t *testing.T) {
	a := newCloud(t)
	a.secret = secretOf(t, map[string]string{"username": "relay", "password": "old"})
	cfg := aws.Config{BaseEndpoint: &a.url, Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")}
	s := &login{reader: secret.New(cfg, "arn:of:the:secret", "IDEMSK_KAFKA_SECRET_ARN")}
	want := func(password string, asked int) {
		t.Helper()
		if got, err := s.scram(t.Context()); err != nil || got.Pass != password || a.asked != asked {
			t.Errorf("the password is %q, asked %d times, %v; want %q, %d", got.Pass, a.asked, err, password, asked)
		}
	}
	want("old", 1)
	a.secret = secretOf(t, map[string]string{"username": "relay", "password": "new"})
	want("old", 1)
	s.at = s.at.Add(-fresh)
	want("new", 2)
}

// A secret that is not as it must be is named, and nothing of it is repeated.
func TestInvalidSecretsAreNamed(t *testing.T) {
	c := newCluster(t, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "relay", "right"))
	for _, tc := range []struct{ secret, want string }{
		{"hunter2", "is not JSON"}, {`{"password":"hunter2"}`, "has no username or no password"},
	} {
		a := newCloud(t)
		a.secret = tc.secret
		s := start(t, a, c, map[string]string{"IDEMSK_KAFKA_AUTH": authSCRAM512, "IDEMSK_KAFKA_SECRET_ARN": "arn:of:the:secret", "IDEMSK_KAFKA_TLS": "false"})
		s.deliver(insert(1, "t", "k", "x"))
		if logs := s.logs.String(); !strings.Contains(logs, "arn:of:the:secret "+tc.want) || strings.Contains(logs, "hunter2") {
			t.Errorf("the log says %s; want %q, and nothing secret", logs, tc.want)
		}
	}
}

func TestMutualTLS(t *testing.T) {
	cert, certPEM, keyPEM := certificate(t)
	c := newCluster(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAnyClientCert}))
	a := newCloud(t)
	a.secret = secretOf(t, map[string]string{"certificate": certPEM, "privateKey": keyPEM})
	env := map[string]string{"IDEMSK_KAFKA_AUTH": authMTLS, "IDEMSK_KAFKA_SECRET_ARN": "arn:of:the:secret", "IDEMSK_KAFKA_CA": certPEM}
	s := start(t, a, c, env)
	if reported := s.deliver(insert(1, "t", "k", "one")); len(reported) != 0 {
		t.Errorf("reported: %s", s.logs.String())
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, []byte(certPEM), 0o600); err != nil {
		t.Fatal(err)
	}
	env["IDEMSK_KAFKA_CA"] = file
	a.secret = secretOf(t, map[string]string{"certificate": certPEM, "privateKey": "none"})
	s = start(t, a, c, env)
	if reported := s.deliver(insert(1, "t", "k", "one")); len(reported) != 1 || !strings.Contains(s.logs.String(), "certificate and privateKey") {
		t.Errorf("%q are reported: %s", reported, s.logs.String())
	}
	delete(env, "IDEMSK_KAFKA_CA") // the system's do not trust it
	if s = start(t, a, c, env); len(s.deliver(insert(1, "t", "k", "one"))) != 1 {
		t.Error("a broker with an untrusted certificate was accepted")
	}
}

// The brokers of a cluster with IAM are asked by the mechanism that MSK has, over TLS. What they are shown MSK alone can judge.
func TestIAM(t *testing.T) {
	cert, certPEM, _ := certificate(t)
	c := newCluster(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}}), kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "p"))
	asked := make(chan string, 16)
	c.ControlKey(int16(kmsg.SASLHandshake), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		asked <- req.(*kmsg.SASLHandshakeRequest).Mechanism
		return nil, nil, false
	})
	s := start(t, newCloud(t), c, map[string]string{"IDEMSK_KAFKA_AUTH": authIAM, "IDEMSK_KAFKA_CA": certPEM})
	if reported := s.deliver(insert(1, "t", "k", "one")); len(reported) != 1 {
		t.Errorf("%q are reported", reported)
	}
	if mechanism := <-asked; mechanism != "AWS_MSK_IAM" {
		t.Errorf("the mechanism is %q", mechanism)
	}
}

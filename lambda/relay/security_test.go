package main

import (
	"crypto/tls"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/idemsk/idemsk/internal/kafkaauth/authtest"
)

func secretOf(t *testing.T, fields map[string]string) string {
	t.Helper()
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPasswords(t *testing.T) {
	c := newCluster(t, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "relay", "right"),
		kfake.Superuser("SCRAM-SHA-256", "relay256", "right"),
		kfake.Superuser("PLAIN", "reader", "right"))
	for auth, user := range map[string]string{"scram-sha-512": "relay", "scram-sha-256": "relay256",
		"plain": "reader"} {
		a := newCloud(t)
		a.secret = secretOf(t, map[string]string{"username": user, "password": "right"})
		env := map[string]string{"IDEMSK_KAFKA_AUTH": auth,
			"IDEMSK_KAFKA_SECRET_ARN": "arn:aws:secretsmanager:us-east-1:000000000000:secret:s",
			"IDEMSK_KAFKA_TLS":        "false"}
		env["IDEMSK_KAFKA_TIMEOUT"] = "20s" // a busy machine takes long for a login
		s := start(t, a, c, env)
		if reported := s.deliver(insert(1, "t", "k", "one")); len(reported) != 0 {
			t.Errorf("%s: reported: %s", auth, s.logs.String())
		}
		delete(env, "IDEMSK_KAFKA_TIMEOUT")
		a.secret = secretOf(t, map[string]string{"username": user, "password": "wrong"})
		if s := start(t, a, c, env); !slices.Equal(s.deliver(insert(2, "t", "k", "two")), []string{"2"}) {
			t.Errorf("%s: a wrong password was accepted", auth)
		}
	}
	read(t, c, 3, kgo.SASL(plain.Auth{User: "reader", Pass: "right"}.AsMechanism()))
}

// A secret that is not as it must be is named, and nothing of it is repeated.
func TestInvalidSecretsAreNamed(t *testing.T) {
	c := newCluster(t, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "relay", "right"))
	for _, tc := range []struct{ secret, want string }{
		{"hunter2", "is not JSON"}, {`{"password":"hunter2"}`, "has no username or no password"},
	} {
		a := newCloud(t)
		a.secret = tc.secret
		s := start(t, a, c, map[string]string{"IDEMSK_KAFKA_AUTH": "scram-sha-512",
			"IDEMSK_KAFKA_SECRET_ARN": "arn:of:the:secret", "IDEMSK_KAFKA_TLS": "false"})
		s.deliver(insert(1, "t", "k", "x"))
		if logs := s.logs.String(); !strings.Contains(logs, "arn:of:the:secret "+tc.want) ||
			strings.Contains(logs, "hunter2") {
			t.Errorf("the log says %s; want %q, and nothing secret", logs, tc.want)
		}
	}
}

func TestMutualTLS(t *testing.T) {
	cert, certFile, keyFile := authtest.Certificate(t)
	certPEM, keyPEM := authtest.Text(t, certFile), authtest.Text(t, keyFile)
	c := newCluster(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert},
		ClientAuth: tls.RequireAnyClientCert}))
	a := newCloud(t)
	a.secret = secretOf(t, map[string]string{"certificate": certPEM, "privateKey": keyPEM})
	env := map[string]string{"IDEMSK_KAFKA_AUTH": "mtls", "IDEMSK_KAFKA_SECRET_ARN": "arn:of:the:secret",
		"IDEMSK_KAFKA_TLS_CA": certPEM}
	s := start(t, a, c, env)
	if reported := s.deliver(insert(1, "t", "k", "one")); len(reported) != 0 {
		t.Errorf("reported: %s", s.logs.String())
	}
	env["IDEMSK_KAFKA_TLS_CA"] = certFile
	a.secret = secretOf(t, map[string]string{"certificate": certPEM, "privateKey": "none"})
	s = start(t, a, c, env)
	if reported := s.deliver(insert(1, "t", "k", "one")); len(reported) != 1 ||
		!strings.Contains(s.logs.String(), "certificate and privateKey") {
		t.Errorf("%q are reported: %s", reported, s.logs.String())
	}
	delete(env, "IDEMSK_KAFKA_TLS_CA") // the system's do not trust it
	if s = start(t, a, c, env); len(s.deliver(insert(1, "t", "k", "one"))) != 1 {
		t.Error("a broker with an untrusted certificate was accepted")
	}
}

// The brokers of a cluster with IAM are asked by the mechanism that MSK has, over TLS. What they are shown
// MSK alone can judge.
func TestIAM(t *testing.T) {
	cert, certFile, _ := authtest.Certificate(t)
	c := newCluster(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}}), kfake.EnableSASL(),
		kfake.Superuser("PLAIN", "u", "p"))
	asked := make(chan string, 16)
	c.ControlKey(int16(kmsg.SASLHandshake), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		asked <- req.(*kmsg.SASLHandshakeRequest).Mechanism
		return nil, nil, false
	})
	s := start(t, newCloud(t), c, map[string]string{"IDEMSK_KAFKA_AUTH": "iam",
		"IDEMSK_KAFKA_TLS_CA": certFile})
	if reported := s.deliver(insert(1, "t", "k", "one")); len(reported) != 1 {
		t.Errorf("%q are reported", reported)
	}
	if mechanism := <-asked; mechanism != "AWS_MSK_IAM" {
		t.Errorf("the mechanism is %q", mechanism)
	}
}

package kafkaauth_test

import (
	"strings"
	"testing"

	"github.com/idemsk/idemsk/internal/kafkaauth"
	"github.com/idemsk/idemsk/internal/kafkaauth/authtest"
)

const arn = "arn:aws:secretsmanager:us-east-1:000000000000:secret:s"

// variables is an environment, which collects the errors in it.
type variables struct {
	values map[string]string
	errs   []string
}

func (v *variables) String(name, def string) string {
	if s := v.values[name]; s != "" {
		return s
	}
	return def
}

func (v *variables) Fail(name, value, want string) {
	v.errs = append(v.errs, name+" is "+value+": want "+want)
}

func (v *variables) FailSecret(name, want string) { v.errs = append(v.errs, name+": want "+want) }

// environment returns variables of the names without IDEMSK_KAFKA_, with brokers.
func environment(values ...string) *variables {
	v := &variables{values: map[string]string{"IDEMSK_KAFKA_BROKERS": "b-1:9098,b-2:9098"}}
	for i := 0; i < len(values); i += 2 {
		v.values["IDEMSK_KAFKA_"+values[i]] = values[i+1]
	}
	return v
}

// Each invalid combination is one error, which names the variable at fault and what it must be.
func TestInvalidVariables(t *testing.T) {
	t.Parallel()
	_, cert, key := authtest.Certificate(t)
	for name, tc := range map[string]struct {
		given *variables
		want  string
	}{
		"no brokers": {environment("BROKERS", ""), "BROKERS is : want the addresses"},
		"no port":    {environment("BROKERS", "b-1"), "BROKERS is b-1: want"},
		"no such method": {environment("AUTH", "kerberos"),
			"AUTH is kerberos: want one of none, iam, scram-sha-512, scram-sha-256, plain, mtls"},
		"neither true nor so": {environment("TLS", "yes"), "TLS is yes: want true or false"},
		"IAM unencrypted": {environment("AUTH", "iam", "TLS", "false"),
			"TLS is false: want true: the authentication iam needs"},
		"mTLS unencrypted": {environment("AUTH", "mtls", "SECRET_ARN", arn, "TLS", "false"),
			"TLS is false: want true: the authentication mtls needs"},
		"plain unencrypted": {environment("AUTH", "plain", "SECRET_ARN", arn, "TLS", "false"),
			"TLS is false: want true: the authentication plain would send"},
		"a CA unencrypted": {environment("TLS", "false", "TLS_CA", cert), "TLS is false: want true, or"},
		"no such CA": {environment("TLS_CA", "nowhere.pem"),
			"TLS_CA is nowhere.pem: want certificates"},
		"a CA without any": {environment("TLS_CA", key), "it contains no certificate"},
		"a CA as text":     {environment("TLS_CA", authtest.Text(t, key)), "TLS_CA: want certificates"},
		"no password": {environment("AUTH", "scram-sha-512"),
			"SECRET_ARN is : want the ARN of a secret with username"},
		"half a password": {environment("AUTH", "scram-sha-256", "USERNAME", "u"), "PASSWORD: want"},
		"half a user":     {environment("AUTH", "plain", "PASSWORD", "hush"), "USERNAME is : want"},
		"two passwords": {environment("AUTH", "plain", "PASSWORD", "hush", "USERNAME", "u",
			"SECRET_ARN", arn), "SECRET_ARN is " + arn + ": want either"},
		"no certificate": {environment("AUTH", "mtls"),
			"SECRET_ARN is : want the ARN of a secret with certificate"},
		"half a certificate": {environment("AUTH", "mtls", "TLS_CERT", cert), "TLS_KEY: want"},
		"half a key":         {environment("AUTH", "mtls", "TLS_KEY", key), "TLS_CERT is : want"},
		"two certificates": {environment("AUTH", "mtls", "TLS_CERT", cert, "TLS_KEY", key, "SECRET_ARN",
			arn), "SECRET_ARN is " + arn + ": want either"},
		"a key of nothing": {environment("AUTH", "mtls", "TLS_CERT", cert, "TLS_KEY", cert),
			"TLS_KEY: want"},
		"a key in no form": {environment("AUTH", "mtls", "TLS_CERT", cert, "TLS_KEY", "hush"),
			"TLS_KEY: want"},
		"a certificate, unused": {environment("TLS_CERT", cert, "TLS_KEY", key), "AUTH is none: want mtls"},
		"a secret, unused": {environment("AUTH", "iam", "SECRET_ARN", arn),
			"SECRET_ARN is " + arn + ": want none with the authentication iam"},
		"a user, unused": {environment("USERNAME", "u", "PASSWORD", "hush"),
			"USERNAME is u: want none with the authentication none"},
		"a password, unused": {environment("AUTH", "mtls", "TLS_CERT", cert, "TLS_KEY", key, "PASSWORD",
			"hush"), "PASSWORD: want none with the authentication mtls"},
	} {
		kafkaauth.Read(tc.given)
		if got := tc.given.errs; len(got) != 1 || !strings.HasPrefix(got[0], "IDEMSK_KAFKA_") ||
			!strings.Contains(got[0], tc.want) || strings.Contains(got[0], "hush") {
			t.Errorf("%s: %q; want one that says %q, and nothing secret", name, got, tc.want)
		}
	}
}

func TestValidVariables(t *testing.T) {
	t.Parallel()
	_, cert, key := authtest.Certificate(t)
	for name, tc := range map[string]struct {
		given    *variables
		options  int // besides the brokers and the timeout
		needsAWS bool
	}{
		"nothing": {given: environment()},
		"TLS":     {given: environment("TLS", "true"), options: 1},
		"a CA":    {given: environment("TLS_CA", cert), options: 1},
		"IAM":     {given: environment("AUTH", "iam"), options: 2, needsAWS: true},
		"SCRAM": {given: environment("AUTH", "scram-sha-512", "USERNAME", "u", "PASSWORD",
			"p"), options: 2},
		"SCRAM unencrypted": {given: environment("AUTH", "scram-sha-256", "SECRET_ARN", arn, "TLS",
			"false"), options: 1, needsAWS: true},
		"plain on this machine": {given: environment("BROKERS", "localhost:1, [::1]:2,127.0.0.1:3", "AUTH",
			"plain", "TLS", "false", "SECRET_ARN", arn), options: 1, needsAWS: true},
		"mTLS of a secret": {given: environment("AUTH", "mtls", "SECRET_ARN", arn), options: 1,
			needsAWS: true},
		"mTLS of files": {given: environment("AUTH", "mtls", "TLS_CERT", cert, "TLS_KEY", key),
			options: 1},
		"mTLS of texts": {given: environment("AUTH", "mtls", "TLS_CERT", authtest.Text(t, cert),
			"TLS_KEY", authtest.Text(t, key)), options: 1},
		"certificate and secret": {given: environment("AUTH", "scram-sha-512", "SECRET_ARN", arn, "TLS_CERT",
			cert, "TLS_KEY", key), options: 2, needsAWS: true},
	} {
		c := kafkaauth.Read(tc.given)
		opts, err := c.Options()
		if err != nil || tc.given.errs != nil || len(opts) != tc.options+2 || c.NeedsAWS() != tc.needsAWS {
			t.Errorf("%s: %v, %q; %d options, want %d; needs AWS: %t, want %t", name, err, tc.given.errs,
				len(opts), tc.options+2, c.NeedsAWS(), tc.needsAWS)
		}
	}
}

// A Config that Check was not asked for fails all the same.
func TestOptionsOfAnInvalidConfig(t *testing.T) {
	t.Parallel()
	c := kafkaauth.Config{Method: kafkaauth.MTLS, TLS: kafkaauth.TLSOff}
	if _, err := c.Options(); err == nil || !strings.Contains(err.Error(), "IDEMSK_KAFKA_TLS is") ||
		!strings.Contains(err.Error(), "IDEMSK_KAFKA_SECRET_ARN is") {
		t.Errorf("%v; want both problems", err)
	}
}

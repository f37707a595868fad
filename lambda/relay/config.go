package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/idemsk/idemsk/host"
	"github.com/idemsk/idemsk/outbox/dynamooutbox"
	"github.com/idemsk/idemsk/outbox/relay"
)

// config is the function's configuration.
type config struct {
	table    string        // IDEMSK_OUTBOX_TABLE
	brokers  []string      // IDEMSK_KAFKA_BROKERS: host:port,…
	timeout  time.Duration // IDEMSK_KAFKA_TIMEOUT: for the events that are sent together
	attempts int           // IDEMSK_RELAY_ATTEMPTS: before an event that Kafka rejects is parked
	security security
	function string     // AWS_LAMBDA_FUNCTION_NAME
	logLevel slog.Level // IDEMSK_LOG_LEVEL
}

// The values of IDEMSK_KAFKA_AUTH: broker authentication.
const (
	authNone     = "none"
	authIAM      = "iam"
	authSCRAM512 = "scram-sha-512"
	authSCRAM256 = "scram-sha-256"
	authMTLS     = "mtls"
)

const maxAttempts = 20

func readConfig(v *host.Vars) config {
	return config{
		table:    v.Table("IDEMSK_OUTBOX_TABLE", dynamooutbox.DefaultTable),
		brokers:  readBrokers(v),
		timeout:  v.Duration("IDEMSK_KAFKA_TIMEOUT", relay.DefaultTimeout, time.Second, time.Minute),
		attempts: v.Int("IDEMSK_RELAY_ATTEMPTS", dynamooutbox.DefaultMaxAttempts, 1, maxAttempts),
		security: readSecurity(v),
		function: v.String("AWS_LAMBDA_FUNCTION_NAME", ""),
		logLevel: readLogLevel(v),
	}
}

func readBrokers(v *host.Vars) []string {
	const name = "IDEMSK_KAFKA_BROKERS"
	s := v.String(name, "")
	brokers := strings.Split(s, ",")
	for i, b := range brokers {
		brokers[i] = strings.TrimSpace(b)
		if host, port, err := net.SplitHostPort(brokers[i]); err != nil || host == "" || port == "" {
			v.Fail(name, s, "the addresses of some brokers, host:port,host:port")
			break
		}
	}
	return brokers
}

// security is the configuration of broker authentication and TLS.
type security struct {
	auth   string // IDEMSK_KAFKA_AUTH
	tls    bool   // IDEMSK_KAFKA_TLS, default: true with authentication
	ca     []byte // IDEMSK_KAFKA_CA: certificates in PEM, or their file; by default the system's
	secret string // IDEMSK_KAFKA_SECRET_ARN: username and password, or certificate and privateKey, as an event source mapping wants them
}

func readSecurity(v *host.Vars) security {
	s := security{auth: v.OneOf("IDEMSK_KAFKA_AUTH", authNone, authIAM, authSCRAM512, authSCRAM256, authMTLS)}
	s.tls = v.Bool("IDEMSK_KAFKA_TLS", s.auth != authNone)
	s.secret = v.String("IDEMSK_KAFKA_SECRET_ARN", "")
	if !s.tls && (s.auth == authIAM || s.auth == authMTLS) {
		v.Fail("IDEMSK_KAFKA_TLS", "false", "true: IDEMSK_KAFKA_AUTH="+s.auth+" is nothing without TLS")
	}
	if s.needsSecret() && s.secret == "" {
		v.Fail("IDEMSK_KAFKA_SECRET_ARN", "", "the ARN of the secret that IDEMSK_KAFKA_AUTH="+s.auth+" needs")
	}
	var err error
	if s.ca, err = readCA(v.String("IDEMSK_KAFKA_CA", "")); err != nil {
		v.FailSecret("IDEMSK_KAFKA_CA", "certificates in PEM, or the file that contains them ("+err.Error()+")")
	}
	return s
}

func (s *security) needsSecret() bool {
	return s.auth == authSCRAM512 || s.auth == authSCRAM256 || s.auth == authMTLS
}

func readCA(s string) ([]byte, error) {
	if s == "" || strings.HasPrefix(s, "-----BEGIN ") {
		return []byte(s), nil
	}
	pem, err := os.ReadFile(s) //nolint:gosec // the operator sets the path
	if err != nil {
		return nil, fmt.Errorf("it does not begin with -----BEGIN, and: %w", err)
	}
	if len(pem) == 0 {
		return nil, errors.New("the file is empty")
	}
	return pem, nil
}

func readLogLevel(v *host.Vars) slog.Level {
	switch v.OneOf("IDEMSK_LOG_LEVEL", "INFO", "DEBUG", "WARN", "ERROR") {
	case "DEBUG":
		return slog.LevelDebug
	case "WARN":
		return slog.LevelWarn
	case "ERROR":
		return slog.LevelError
	}
	return slog.LevelInfo
}

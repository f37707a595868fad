package cli

import (
	"flag"
	"net"
	"os"
	"strings"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/redrive"
)

// kafkaFlags are the flags of the verbs that talk to Kafka.
type kafkaFlags struct {
	brokers  string
	security redrive.Security
}

// The variables that hold the user and password for Kafka: flags would show in the list of processes.
const (
	varUsername = "IDEMSK_KAFKA_USERNAME"
	varPassword = "IDEMSK_KAFKA_PASSWORD" //nolint:gosec // a name
)

func (k *kafkaFlags) declareSecurity(fs *flag.FlagSet) {
	sec := &k.security
	fs.BoolVar(&sec.TLS, "tls", false, "encrypt the connections to Kafka (also by each of the flags below but --sasl scram-… and plain)")
	fs.StringVar(&sec.CA, "tls-ca", "", "a `FILE` of the certificates to trust, instead of the system's")
	fs.StringVar(&sec.Cert, "tls-cert", "", "a `FILE` with the client's certificate, for mTLS")
	fs.StringVar(&sec.Key, "tls-key", "", "a `FILE` with its key")
	fs.StringVar(&sec.SASL, "sasl", "", "`HOW` to sign in: scram-sha-512, scram-sha-256, plain or aws-iam")
}

// checkSecurity refuses what does not go together, and reads user and password.
func (k *kafkaFlags) checkSecurity() error {
	sec := &k.security
	switch {
	case (sec.Cert == "") != (sec.Key == ""):
		return usagef("--tls-cert and --tls-key go together")
	case k.brokers == "" && (sec.TLS || sec.SASL != "" || sec.CA != "" || sec.Cert != ""):
		return usagef("--tls, --tls-… and --sasl are for --brokers, which is missing")
	}
	switch sec.SASL {
	case "", redrive.AWSIAM:
		return nil
	case redrive.Plain:
		if !sec.TLS && sec.CA == "" && !allLocal(k.brokers) {
			return usagef("--sasl plain would send the password unencrypted: give --tls")
		}
	case redrive.ScramSHA512, redrive.ScramSHA256:
	default:
		return usagef("--sasl is %q: want scram-sha-512, scram-sha-256, plain or aws-iam", sec.SASL)
	}
	sec.Username, sec.Password = os.Getenv(varUsername), os.Getenv(varPassword)
	if sec.Username == "" || sec.Password == "" {
		return usagef("--sasl %s needs %s and %s in the environment", sec.SASL, varUsername, varPassword)
	}
	return nil
}

// allLocal reports whether all brokers are on this machine.
func allLocal(brokers string) bool {
	for broker := range strings.SplitSeq(brokers, ",") {
		host, _, err := net.SplitHostPort(broker)
		ip := net.ParseIP(host)
		if err != nil || (host != "localhost" && (ip == nil || !ip.IsLoopback())) {
			return false
		}
	}
	return true
}

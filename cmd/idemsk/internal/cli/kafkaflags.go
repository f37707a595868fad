package cli

import (
	"context"
	"flag"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/kafkaclient"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/redrive"
)

// kafkaFlags are the flags of verbs that connect to Kafka.
type kafkaFlags struct {
	brokers  string
	security redrive.Security
}

// The environment variables of the Kafka user and password. Flags would be visible in the list of processes.
const (
	varUsername = "IDEMSK_KAFKA_USERNAME"
	varPassword = "IDEMSK_KAFKA_PASSWORD" //nolint:gosec // a name
)

// kafkaHelp is the last paragraph in the help of these verbs.
const kafkaHelp = `
For --sasl scram-sha-512, scram-sha-256 and plain, set IDEMSK_KAFKA_USERNAME and IDEMSK_KAFKA_PASSWORD. For --sasl aws-iam the
credentials of the AWS SDK are used.`

func (k *kafkaFlags) declareBrokers(fs *flag.FlagSet) {
	fs.StringVar(&k.brokers, "brokers", "", "the Kafka brokers, as `HOST:PORT,…`")
	k.declareSecurity(fs)
}

func (k *kafkaFlags) declareSecurity(fs *flag.FlagSet) {
	sec := &k.security
	fs.BoolVar(&sec.TLS, "tls", false, "encrypt the connections to Kafka; implied by --tls-… and --sasl aws-iam")
	fs.StringVar(&sec.CA, "tls-ca", "", "a `FILE` with the CA certificates to trust instead of the system's")
	fs.StringVar(&sec.Cert, "tls-cert", "", "a `FILE` with the client's certificate, for mTLS")
	fs.StringVar(&sec.Key, "tls-key", "", "a `FILE` with the client's private key, for mTLS")
	fs.StringVar(&sec.SASL, "sasl", "", "the `MECHANISM` to authenticate with: scram-sha-512, scram-sha-256, plain or aws-iam")
}

// checkSecurity returns an error if flags contradict each other, and reads user and password from the environment.
func (k *kafkaFlags) checkSecurity() error {
	sec := &k.security
	switch {
	case (sec.Cert == "") != (sec.Key == ""):
		return usagef("--tls-cert and --tls-key need each other")
	case k.brokers == "" && (sec.TLS || sec.SASL != "" || sec.CA != "" || sec.Cert != ""):
		return usagef("--tls, --tls-… and --sasl need --brokers")
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

// options returns the client's options for encryption and authentication. For aws-iam, region is the region of the AWS credentials.
func (k *kafkaFlags) options(ctx context.Context, region string) ([]kgo.Opt, error) {
	if err := k.checkSecurity(); err != nil {
		return nil, err
	}
	if k.security.SASL == redrive.AWSIAM {
		flags := awsFlags{region: region} // without an endpoint, which is not the cluster's
		cfg, err := flags.load(ctx)
		if err != nil {
			return nil, explainAWS(err)
		}
		k.security.AWS = cfg.Credentials
	}
	return k.security.Options()
}

// connect returns a client that has reached a broker. The caller closes it.
func (k *kafkaFlags) connect(ctx context.Context, region string, opts ...kgo.Opt) (*kgo.Client, error) {
	if k.brokers == "" {
		return nil, usagef("--brokers is missing")
	}
	secured, err := k.options(ctx, region)
	if err != nil {
		return nil, err
	}
	return kafkaclient.Dial(ctx, strings.Split(k.brokers, ","), slices.Concat(secured, opts)...)
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

package cli

import (
	"context"
	"flag"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/kafkaclient"
	"github.com/idemsk/idemsk/internal/kafkaauth"
)

// kafkaFlags are the flags of verbs that connect to Kafka.
type kafkaFlags struct {
	brokers string
	auth    kafkaauth.Config
}

// kafkaHelp is the last paragraph in the help of these verbs.
const kafkaHelp = `
For --auth scram-sha-512, scram-sha-256 and plain, set IDEMSK_KAFKA_USERNAME and IDEMSK_KAFKA_PASSWORD, or give --secret-arn. For --auth
iam the credentials of the AWS SDK are used. Every --auth but none implies --tls.`

func (k *kafkaFlags) declareBrokers(fs *flag.FlagSet) {
	fs.StringVar(&k.brokers, "brokers", "", "the Kafka brokers, as `HOST:PORT,…`")
	k.declareAuth(fs)
}

func (k *kafkaFlags) declareAuth(fs *flag.FlagSet) {
	c := &k.auth
	fs.StringVar((*string)(&c.Method), kafkaauth.SettingAuth.Flag(), string(kafkaauth.None),
		"the `METHOD` of authentication at Kafka: none, iam, scram-sha-512, scram-sha-256, plain or mtls")
	fs.BoolFunc(kafkaauth.SettingTLS.Flag(), "encrypt the connections to Kafka; implied by --auth and --tls-…, unless --tls=false", func(s string) error {
		on, err := strconv.ParseBool(s)
		c.TLS = kafkaauth.TLSOff
		if on {
			c.TLS = kafkaauth.TLSOn
		}
		return err
	})
	fs.StringVar(&c.CA, kafkaauth.SettingCA.Flag(), "", "a `FILE` with the CA certificates to trust instead of the system's")
	fs.StringVar(&c.Certificate, kafkaauth.SettingCertificate.Flag(), "", "a `FILE` with the client's certificate, for --auth mtls")
	fs.StringVar(&c.Key, kafkaauth.SettingKey.Flag(), "", "a `FILE` with the client's private key, for --auth mtls")
	fs.StringVar(&c.SecretARN, kafkaauth.SettingSecretARN.Flag(), "",
		"the `ARN` of a secret in Secrets Manager with username and password, or certificate and privateKey, for --auth")
}

// checkAuth returns an error if flags contradict each other, and reads user and password from the environment.
func (k *kafkaFlags) checkAuth() error {
	c := &k.auth
	if k.brokers == "" {
		if c.TLS != kafkaauth.TLSDefault || c.Method != kafkaauth.None || c.CA+c.Certificate+c.Key+c.SecretARN != "" {
			return usagef("--auth, --secret-arn, --tls and --tls-… need --brokers")
		}
		return nil
	}
	c.Brokers = strings.Split(k.brokers, ",")
	switch c.Method {
	case kafkaauth.SCRAM512, kafkaauth.SCRAM256, kafkaauth.Plain:
		if c.SecretARN == "" {
			c.Username, c.Password = os.Getenv(string(kafkaauth.SettingUsername)), os.Getenv(string(kafkaauth.SettingPassword))
		}
	case kafkaauth.None, kafkaauth.IAM, kafkaauth.MTLS:
	}
	if errs := c.Check(); len(errs) > 0 {
		return usagef("%s", errs[0].Text(settingName(errs[0].Setting)))
	}
	return nil
}

// settingName returns the name of the flag, or of the variable, with a setting.
func settingName(s kafkaauth.Setting) string {
	if s == kafkaauth.SettingUsername || s == kafkaauth.SettingPassword {
		return string(s)
	}
	return "--" + s.Flag()
}

// options returns the client's options: the brokers, encryption and authentication. region is the region of the AWS credentials and
// of the secret.
func (k *kafkaFlags) options(ctx context.Context, region string) ([]kgo.Opt, error) {
	if err := k.checkAuth(); err != nil || k.brokers == "" {
		return nil, err
	}
	if k.auth.NeedsAWS() {
		flags := awsFlags{region: region} // without an endpoint, which is not the cluster's
		cfg, err := flags.load(ctx)
		if err != nil {
			return nil, explainAWS(err)
		}
		k.auth.AWS = cfg
	}
	return k.auth.Options()
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
	return kafkaclient.Dial(ctx, k.auth.Brokers, slices.Concat(secured, opts)...)
}

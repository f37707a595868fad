package flags

import (
	"context"
	"flag"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/kafkaclient"
	"github.com/idemsk/idemsk/internal/kafkaauth"
)

// Kafka are the flags of verbs that connect to Kafka.
type Kafka struct {
	Brokers string
	Auth    kafkaauth.Config
}

// DeclareBrokers declares all flags.
func (k *Kafka) DeclareBrokers(fs *flag.FlagSet) {
	fs.StringVar(&k.Brokers, "brokers", "", "the Kafka brokers, as `HOST:PORT,…`")
	k.DeclareAuth(fs)
}

// DeclareAuth declares all flags except --brokers.
func (k *Kafka) DeclareAuth(fs *flag.FlagSet) {
	c := &k.Auth
	fs.StringVar((*string)(&c.Method), kafkaauth.SettingAuth.Flag(), string(kafkaauth.None),
		"the `METHOD` of authentication at Kafka: none, iam, scram-sha-512, scram-sha-256, plain or mtls")
	fs.BoolFunc(kafkaauth.SettingTLS.Flag(),
		"encrypt the connections to Kafka; implied by --auth and --tls-…, unless --tls=false",
		func(s string) error {
			on, err := strconv.ParseBool(s)
			c.TLS = kafkaauth.TLSOff
			if on {
				c.TLS = kafkaauth.TLSOn
			}
			return err
		})
	fs.StringVar(&c.CA, kafkaauth.SettingCA.Flag(), "",
		"a `FILE` with the CA certificates to trust instead of the system's")
	fs.StringVar(&c.Certificate, kafkaauth.SettingCertificate.Flag(), "",
		"a `FILE` with the client's certificate, for --auth mtls")
	fs.StringVar(&c.Key, kafkaauth.SettingKey.Flag(), "",
		"a `FILE` with the client's private key, for --auth mtls")
	fs.StringVar(&c.SecretARN, kafkaauth.SettingSecretARN.Flag(), "",
		"the `ARN` of a secret in Secrets Manager with username and password, or certificate and "+
			"privateKey, for --auth")
}

// CheckAuth returns an error if flags contradict each other, and reads user and password from the
// environment.
func (k *Kafka) CheckAuth() error {
	c := &k.Auth
	if k.Brokers == "" {
		if c.TLS != kafkaauth.TLSDefault || c.Method != kafkaauth.None ||
			c.CA+c.Certificate+c.Key+c.SecretARN != "" {
			return command.Usagef("--auth, --secret-arn, --tls and --tls-… need --brokers")
		}
		return nil
	}
	c.Brokers = strings.Split(k.Brokers, ",")
	switch c.Method {
	case kafkaauth.SCRAM512, kafkaauth.SCRAM256, kafkaauth.Plain:
		if c.SecretARN == "" {
			c.Username, c.Password = os.Getenv(string(kafkaauth.SettingUsername)),
				os.Getenv(string(kafkaauth.SettingPassword))
		}
	case kafkaauth.None, kafkaauth.IAM, kafkaauth.MTLS:
	}
	if errs := c.Check(); len(errs) > 0 {
		return command.Usagef("%s", errs[0].Text(settingName(errs[0].Setting)))
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

// Options returns the client's options: the brokers, encryption and authentication. region is the region of
// the AWS credentials and of the secret.
func (k *Kafka) Options(ctx context.Context, region string) ([]kgo.Opt, error) {
	if err := k.CheckAuth(); err != nil || k.Brokers == "" {
		return nil, err
	}
	if k.Auth.NeedsAWS() {
		flags := AWS{Region: region} // without an endpoint, which is not the cluster's
		cfg, err := flags.Load(ctx)
		if err != nil {
			return nil, ExplainAWS(err)
		}
		k.Auth.AWS = cfg
	}
	return k.Auth.Options()
}

// Connect returns a client that has reached a broker. The caller closes it.
func (k *Kafka) Connect(ctx context.Context, region string, opts ...kgo.Opt) (*kgo.Client, error) {
	if k.Brokers == "" {
		return nil, command.Usagef("--brokers is missing")
	}
	secured, err := k.Options(ctx, region)
	if err != nil {
		return nil, err
	}
	return kafkaclient.Dial(ctx, k.Auth.Brokers, slices.Concat(secured, opts)...)
}

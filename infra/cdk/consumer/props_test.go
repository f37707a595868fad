package consumer_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

const (
	cluster = "arn:aws:kafka:eu-central-1:111122223333:cluster/payments/6cc0432b-8618-4f44-bccc-e1fbd8fb7c4d-2"
	secret  = "arn:aws:secretsmanager:eu-central-1:111122223333:secret:AmazonMSK_payments-AbCdEf"
	key     = "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
)

// codeDir is a directory with a bootstrap, at a place that messages can name.
func codeDir(t *testing.T) string {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("built", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("built", "bootstrap"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	return "built"
}

// valid are props that Check has nothing against.
func valid(t *testing.T) consumer.Props {
	t.Helper()
	return consumer.Props{CodeDir: codeDir(t), ClusterARN: cluster,
		Topics: []consumer.Topic{{Name: "payments"}}, ConsumerGroup: "ledger"}
}

func TestValidProps(t *testing.T) {
	for name, change := range map[string]func(p *consumer.Props){
		"least":      func(*consumer.Props) {},
		"serverless": func(p *consumer.Props) { p.ClusterARN = cluster[:len(cluster)-1] + "s3" },
		"China": func(p *consumer.Props) {
			p.ClusterARN = strings.Replace(cluster, "arn:aws:",
				"arn:aws-cn:", 1)
		},
		"tokens": func(p *consumer.Props) {
			p.ClusterARN, p.Auth, p.SecretARN = "${Token[TOKEN.1]}", consumer.AuthSCRAM512,
				"${Token[TOKEN.2]}"
			p.OnFailure.BucketARN, p.Retries, p.FiniteRetries, p.RetryDelay = "${Token[TOKEN.3]}", 10, true,
				-1
		},
		"self-managed": func(p *consumer.Props) {
			p.ClusterARN, p.BootstrapServers, p.SecretARN = "", []string{"b-1.example.com:9096",
				"10.0.0.1:9092"}, secret
		},
		"retries that span the lease": finite(5, nil),
		"retries with short waits":    finite(7, func(p *consumer.Props) { p.Wait = 5 * time.Second }),
		"deliveries that wait for the longest delay": finite(5, func(p *consumer.Props) {
			p.RetryDelay, p.Timeout = time.Second, 65*time.Second
		}),
		"no outage and no delay": func(p *consumer.Props) {
			p.RetryDelay, p.OutageFailures = -1,
				-1
		},
		"the longest retention of the topic": func(p *consumer.Props) { p.TopicRetention = 168 * time.Hour },
		"a topic that outlives the record age": func(p *consumer.Props) {
			p.TopicRetention, p.MaxRecordAge, p.Retries, p.FiniteRetries, p.OnFailure.Queue = 1000*time.Hour,
				168*time.Hour, 10, true, true
			p.RetryDelay = 500 * time.Millisecond
		},
		"the largest batch": func(p *consumer.Props) { p.BatchSize = 2975 },
		"the largest batch, order by key": func(p *consumer.Props) {
			p.BatchSize, p.Order = 10_000,
				"key"
		},
		"the longest timeout":            func(p *consumer.Props) { p.Timeout = 14 * time.Minute },
		"the namespace that is deployed": func(p *consumer.Props) { p.DeployedNamespace = "ledger" },
		"the scope of keys that is deployed": func(
			p *consumer.Props) {
			p.DeployedKeyScope = "topic:payments"
		},
		"claims by partition": func(
			p *consumer.Props) {
			p.Claim = consumer.ClaimByPartition
		},
		"an outbox": boxed(func(*consumer.Props, *consumer.OutboxProps) {}),
		"an outbox in a VPC": boxed(
			func(p *consumer.Props, o *consumer.OutboxProps) {
				p.VPC, o.Brokers[0] = vpc{},
					"b-1.example.com:9098"
			}),
		"an outbox's table that is set by hand": func(
			p *consumer.Props) {
			p.Environment = map[string]string{"IDEMSK_OUTBOX_TABLE": "t"}
		},
		"an outbox with tokens": boxed(
			func(_ *consumer.Props, o *consumer.OutboxProps) { o.Brokers = []string{"${Token[TOKEN.1]}"} }),
		"a function in Python": wrapped(func(*consumer.Props) {}),
		"a function in Java": wrapped(
			func(p *consumer.Props) {
				p.Runtime, p.Handler, p.CodeDir = "java8.al2", "App",
					"built/bootstrap"
			}),
		"a wrapper script of its own in Go": func(
			p *consumer.Props) {
			p.Environment = map[string]string{"AWS_LAMBDA_EXEC_WRAPPER": "/opt/other"}
		},
		"on demand": func(p *consumer.Props) { p.OnDemand = true },
		"two topics, a group each": func(p *consumer.Props) {
			p.Topics = append(p.Topics, consumer.Topic{Name: "refunds", Group: "refunds"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := valid(t)
			change(&p)
			if err := consumer.Check(p); err != nil {
				t.Error(err)
			}
		})
	}
}

// self makes a change to props of a self-managed cluster.
// wrapped are the props of a function behind the layer.
func wrapped(change func(p *consumer.Props)) func(p *consumer.Props) {
	return func(p *consumer.Props) {
		zipped("layer.zip", "bin/idemsk-layer", "\x7fELF"+strings.Repeat("\x00", 14)+"\xb7\x00")
		p.Runtime, p.Handler, p.LayerZip = "python3.13", "app.handler", "layer.zip"
		change(p)
	}
}

// zipped writes a zip with one file.
func zipped(path, name, text string) {
	var file bytes.Buffer
	z := zip.NewWriter(&file)
	w, err := z.Create(name)
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err = errors.Join(err, z.Close(), os.WriteFile(path, file.Bytes(), 0o600)); err != nil {
		panic(err)
	}
}

func self(change func(p *consumer.Props)) func(p *consumer.Props) {
	return func(p *consumer.Props) {
		p.ClusterARN, p.BootstrapServers, p.SecretARN = "", []string{"b-1.example.com:9096"}, secret
		change(p)
	}
}

// vpc stands for one.
type vpc struct{ awsec2.IVpc }

// boxed makes a change to props with an outbox, whose brokers are public.
func boxed(change func(p *consumer.Props, o *consumer.OutboxProps)) func(p *consumer.Props) {
	return func(p *consumer.Props) {
		p.Outbox = &consumer.OutboxProps{RelayDir: p.CodeDir, Brokers: []string{"b-1.example.com:9198"},
			Topics: []string{"credited"}}
		change(p, p.Outbox)
	}
}

// finite makes a change to props with finite retries, and without a delay between attempts.
func finite(retries int, change func(p *consumer.Props)) func(p *consumer.Props) {
	return func(p *consumer.Props) {
		p.Retries, p.FiniteRetries, p.OnFailure.Queue, p.RetryDelay = retries, true, true, -1
		if change != nil {
			change(p)
		}
	}
}

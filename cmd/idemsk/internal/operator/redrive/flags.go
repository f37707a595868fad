package redrive

import (
	"cmp"
	"context"
	"flag"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/flags"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/kafka/deadletter/s3"
)

// Flags say where dead letters are, and where they go.
type Flags struct {
	flags.AWS
	flags.Kafka
	QueueURL, Topic, Bucket, File string // the source
	Visibility                    time.Duration
	Skip                          string // the lines of File that are done
	Function                      string // the destination, unless letters go to where they came from
	Options                       Options
}

// DeclareLetters declares the flags of where dead letters are, and where they go.
func (r *Flags) DeclareLetters(fs *flag.FlagSet) {
	fs.StringVar(&r.QueueURL, "queue-url", "", "the `URL` of the SQS queue of dead letters")
	fs.StringVar(&r.Topic, "dead-letter-topic", "",
		"the Kafka `TOPIC` of dead letters instead, in the cluster of --brokers")
	fs.DurationVar(&r.Visibility, "visibility-timeout", 5*time.Minute,
		"the `TIME` for which a message is hidden from other consumers, which limits the duration of one "+
			"redrive:\nat least twice the function's timeout")
	r.DeclareBrokers(fs)
	fs.StringVar(&r.Function, "function-name", "", "the `NAME` or ARN of the function to invoke")
	fs.StringVar(&r.Options.Function, "of-function", "",
		"only letters of the function `NAME` (default: that of --function-name; without it, any)")
	fs.StringVar(&r.Options.Cluster, "of-cluster", "",
		"only letters of this `CLUSTER`: the ARN or bootstrap servers in the letters, or a queue's ARN (default: that "+
			"of the first letter)")
}

// CheckLetters checks these flags.
func (r *Flags) CheckLetters() error {
	switch {
	case r.Topic != "" && r.Brokers == "":
		return command.Usagef("--dead-letter-topic needs --brokers, the brokers of its cluster")
	case r.Visibility < MinVisibility || r.Visibility > MaxVisibility:
		return command.Usagef("--visibility-timeout is %v: want %v to %v", r.Visibility, MinVisibility,
			MaxVisibility)
	}
	return r.CheckAuth()
}

// Where returns the source.
func (r *Flags) Where() string { return cmp.Or(r.QueueURL, r.Topic, r.Bucket, r.File) }

// Load returns the SDK's configuration. Without --endpoint-url, that of a queue on this machine is in its URL.
func (r *Flags) Load(ctx context.Context) (aws.Config, error) {
	at := r.AWS
	at.Endpoint = cmp.Or(at.Endpoint, flags.LocalEndpoint(r.QueueURL))
	return at.Load(ctx)
}

// Open connects to the source and the destination.
func (r *Flags) Open(ctx context.Context, s command.Streams) (closeAll func(), err error) {
	closeAll = func() {}
	var cfg aws.Config
	if r.QueueURL+r.Bucket+r.Function != "" {
		if cfg, err = r.Load(ctx); err != nil {
			return nil, err
		}
	}
	var cluster *Kafka
	back := &sources{queues: newQueues(r.sender)}
	r.Options.Destination = back
	if r.Brokers != "" {
		secured, err := r.Kafka.Options(ctx, r.Region)
		if err != nil {
			return nil, err
		}
		if cluster, err = Dial(ctx, Cluster{Brokers: r.Auth.Brokers, Options: secured}); err != nil {
			return nil, err
		}
		closeAll, back.topics = cluster.Close, cluster
		r.Options.Reader, r.Options.Ranges = cluster, cluster
	}
	if r.Function != "" {
		r.Options.Destination = Function(lambda.NewFromConfig(cfg), r.Function)
		r.Options.Function = cmp.Or(r.Options.Function, functionName(r.Function))
	}
	r.Options.Values = r.values
	if err := r.openSource(ctx, s, cfg, cluster); err != nil {
		closeAll()
		return nil, err
	}
	return closeAll, nil
}

// values returns a client of S3, for the values of large letters.
func (r *Flags) values(ctx context.Context) (s3.Getter, error) {
	cfg, err := r.Load(ctx)
	if err != nil {
		return nil, err
	}
	return flags.NewS3(cfg), nil
}

// sender returns a client of SQS in a region, for the queues that messages came from.
func (r *Flags) sender(ctx context.Context, region string) (Sender, error) {
	cfg, err := r.Load(ctx)
	if err != nil {
		return nil, err
	}
	return newSQS(cfg, region), nil
}

func newSQS(cfg aws.Config, region string) *sqs.Client {
	return sqs.NewFromConfig(cfg, func(o *sqs.Options) { o.HTTPClient, o.Region = flags.BoundedHTTP(cfg), region })
}

// Queue returns the queue as a source.
func (r *Flags) Queue(cfg aws.Config) Source {
	return Queue(newSQS(cfg, cfg.Region), r.QueueURL, r.Visibility)
}

func (r *Flags) openSource(ctx context.Context, s command.Streams, cfg aws.Config,
	cluster *Kafka) (err error) {
	switch {
	case r.QueueURL != "":
		r.Options.Source = r.Queue(cfg)
	case r.Topic != "":
		var removed int64
		if r.Options.Source, removed, err = cluster.Letters(ctx, r.Topic); removed > 0 {
			s.Sayf("idemsk redrive: the retention of the topic %s has removed up to %s letters that were "+
				"not redriven\n", r.Topic, term.Count(int(removed)))
		}
	case r.Bucket != "":
		r.Options.Source, err = Bucket(flags.NewS3(cfg), r.Bucket)
	default:
		r.Options.Source, err = OpenFile(r.File, r.Skip)
	}
	return err
}

// functionName returns the function's name from a name or a full or partial ARN, with or without a version or
// alias.
// https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html
func functionName(name string) string {
	if _, after, ok := strings.Cut(name, ":function:"); ok {
		name = after
	}
	name, _, _ = strings.Cut(name, ":")
	return name
}

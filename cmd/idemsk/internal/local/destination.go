package local

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/testenv"
	"github.com/idemsk/idemsk/internal/awsclient"
	"github.com/idemsk/idemsk/internal/uuid"
)

// destinationTimeout is the maximum time until a destination answers.
const destinationTimeout = 30 * time.Second

// onFailure is an on-failure destination, and the function that closes it.
type onFailure struct {
	esm.Destination
	close func()
}

// openDestination opens the destination that OnFailure names as in DestinationConfig: by the ARN of a queue,
// an SNS topic or a bucket, or as kafka://TOPIC. The URL of a queue and s3://BUCKET are accepted too.
func openDestination(ctx context.Context, o *Options, s *runStore, brokers []string) (*onFailure, error) {
	name := o.ESM.OnFailure
	if topic, ok := esm.KafkaTopic(name); ok {
		return openTopic(ctx, o.Kafka, topic, brokers)
	}
	bucket, isBucket := strings.CutPrefix(name, "s3://")
	if !isBucket {
		bucket, isBucket = strings.CutPrefix(name, "arn:aws:s3:::")
	}
	switch {
	case name == "":
		return &onFailure{close: func() {}}, nil
	case isBucket:
		return openBucket(ctx, o, bucket)
	case strings.HasPrefix(name, "arn:aws:sns:"):
		return openNotifications(ctx, o, name)
	case strings.HasPrefix(name, "arn:aws:sqs:"), strings.HasPrefix(name, "http://"),
		strings.HasPrefix(name, "https://"):
		return openQueue(ctx, o, s, name)
	}
	return nil, optionsf("--on-failure is %q: want arn:aws:sqs:…, the URL of a queue, arn:aws:sns:…, arn:aws:s3:::BUCKET or kafka://TOPIC", name)
}

// queue is an SQS queue.
type queue struct {
	client    *sqs.Client
	name, url string
}

// openQueue looks up a queue. A queue in this process is created.
func openQueue(ctx context.Context, o *Options, s *runStore, name string) (*onFailure, error) {
	q := &queue{name: name, url: name}
	arn, isARN := strings.CutPrefix(name, "arn:aws:sqs:")
	short := arn[strings.LastIndexByte(arn, ':')+1:]
	if isARN && s != nil && !o.Endpoint {
		var err error
		q.client = s.sqs
		q.url, err = testenv.CreateQueue(ctx, s.sqs, short)
		return &onFailure{Destination: q, close: func() {}}, err
	}
	cfg, err := o.AWS(ctx)
	if err != nil {
		return nil, err
	}
	q.client = sqs.NewFromConfig(cfg)
	if isARN {
		err := promptly(ctx, func(ctx context.Context) error {
			out, err := q.client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &short})
			if err == nil {
				q.url = aws.ToString(out.QueueUrl)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("the on-failure destination %s: %w", name, err)
		}
	}
	return &onFailure{Destination: q, close: func() {}}, nil
}

func (q *queue) String() string { return "the queue " + q.name }

// Send implements esm.Destination.
func (q *queue) Send(ctx context.Context, f *esm.Failure) error {
	body, err := f.Metadata()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, destinationTimeout)
	defer cancel()
	_, err = q.client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &q.url,
		MessageBody: aws.String(string(body))})
	return err
}

// bucket is an S3 bucket. Requests are path-style.
type bucket struct {
	client  *s3.Client
	name    string
	mapping string // the mapping's UUID, a part of the object keys
}

func openBucket(ctx context.Context, o *Options, name string) (*onFailure, error) {
	cfg, end, err := o.destinationConfig(ctx, "")
	if err != nil {
		return nil, err
	}
	b := &bucket{client: s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = true }), name: name,
		mapping: uuid.New()}
	if err := promptly(ctx, func(ctx context.Context) error {
		_, err := b.client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &name})
		return err
	}); err != nil {
		end()
		return nil, fmt.Errorf("the on-failure destination, bucket %s%s: %w", name, at(&cfg), err)
	}
	return &onFailure{Destination: b, close: end}, nil
}

func (b *bucket) String() string { return "the bucket " + b.name }

// Send implements esm.Destination. Object keys are those that AWS documents for its streams, with the
// partition instead of the shard.
func (b *bucket) Send(ctx context.Context, f *esm.Failure) error {
	body, err := f.WithPayload()
	if err != nil {
		return err
	}
	key := fmt.Sprintf("aws/lambda/%s/%s/%s-%s", b.mapping, f.Records[0].Place().Partition,
		f.At.UTC().Format("2006/01/02/2006-01-02T15.04.05"), uuid.New())
	_, err = b.client.PutObject(ctx, &s3.PutObjectInput{Bucket: &b.name, Key: &key, Body: bytes.NewReader(body)})
	return err
}

// notifications is an SNS topic.
type notifications struct {
	client *sns.Client
	arn    string
}

// openNotifications checks that the topic exists. A role that may publish may not be allowed to ask for that.
func openNotifications(ctx context.Context, o *Options, arn string) (*onFailure, error) {
	parts := strings.Split(arn, ":")
	if len(parts) != 6 || parts[3] == "" || parts[5] == "" {
		return nil, optionsf("--on-failure is %q: want arn:aws:sns:REGION:ACCOUNT:TOPIC", arn)
	}
	cfg, end, err := o.destinationConfig(ctx, parts[3])
	if err != nil {
		return nil, err
	}
	n := &notifications{client: sns.NewFromConfig(cfg), arn: arn}
	err = promptly(ctx, func(ctx context.Context) error {
		_, err := n.client.GetTopicAttributes(ctx, &sns.GetTopicAttributesInput{TopicArn: &arn})
		return err
	})
	var refused *awshttp.ResponseError
	if err != nil && (!errors.As(err, &refused) || refused.HTTPStatusCode() != http.StatusForbidden) {
		end()
		return nil, fmt.Errorf("the on-failure destination %s%s: %w", arn, at(&cfg), err)
	}
	return &onFailure{Destination: n, close: end}, nil
}

func (n *notifications) String() string { return "the topic " + n.arn }

// Send implements esm.Destination. The message is that for SQS.
func (n *notifications) Send(ctx context.Context, f *esm.Failure) error {
	body, err := f.Metadata()
	if err != nil {
		return err
	}
	_, err = n.client.Publish(ctx, &sns.PublishInput{TopicArn: &n.arn, Message: aws.String(string(body))})
	return err
}

// destinationConfig returns the configuration of a destination's client, in a region or by default in that of
// the configuration, and what ends its connections.
func (o *Options) destinationConfig(ctx context.Context, region string) (cfg aws.Config, end func(), err error) {
	if cfg, err = o.AWS(ctx); err != nil {
		return cfg, nil, err
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment}
	cfg.HTTPClient = awsclient.New(&http.Client{Transport: transport, Timeout: destinationTimeout}, 0)
	cfg.Region = cmp.Or(region, cfg.Region)
	return cfg, transport.CloseIdleConnections, nil
}

// at names the endpoint of a configuration that has one.
func at(cfg *aws.Config) string {
	if cfg.BaseEndpoint == nil {
		return ""
	}
	return " at " + *cfg.BaseEndpoint
}

// topic is a topic of the same cluster.
type topic struct {
	client *kgo.Client
	name   string
}

func openTopic(ctx context.Context, opts []kgo.Opt, name string, brokers []string) (*onFailure, error) {
	client, err := kgo.NewClient(append(slices.Clone(opts), kgo.SeedBrokers(brokers...),
		kgo.ClientID("idemsk-local-on-failure"),
		kgo.DefaultProduceTopic(name), kgo.RecordDeliveryTimeout(destinationTimeout),
		kgo.UnknownTopicRetries(1))...)
	if err != nil {
		return nil, fmt.Errorf("the Kafka client: %w", err)
	}
	return &onFailure{Destination: &topic{client: client, name: name}, close: client.Close}, ctx.Err()
}

func (t *topic) String() string { return "the topic " + t.name }

// Send implements esm.Destination.
func (t *topic) Send(ctx context.Context, f *esm.Failure) error {
	messages, err := f.TopicMessages()
	if err != nil {
		return err
	}
	records := make([]*kgo.Record, 0, len(messages))
	for _, m := range messages {
		records = append(records, &kgo.Record{Key: m.Key, Value: m.Value})
	}
	return t.client.ProduceSync(ctx, records...).FirstErr()
}

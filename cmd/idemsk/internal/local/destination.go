package local

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/testenv"
)

// destinationTimeout is the maximum time until a destination answers.
const destinationTimeout = 30 * time.Second

// onFailure is an on-failure destination, and the function that closes it.
type onFailure struct {
	esm.Destination
	close func()
}

// openDestination opens the destination that OnFailure names as in DestinationConfig: by the ARN of a queue or bucket, or as
// kafka://TOPIC. The URL of a queue and s3://BUCKET are accepted too.
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
	case strings.HasPrefix(name, "arn:aws:sqs:"), strings.HasPrefix(name, "http://"), strings.HasPrefix(name, "https://"):
		return openQueue(ctx, o, s, name)
	}
	return nil, optionsf("--on-failure is %q: want arn:aws:sqs:…, the URL of a queue, arn:aws:s3:::BUCKET or kafka://TOPIC", name)
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
	_, err = q.client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &q.url, MessageBody: aws.String(string(body))})
	return err
}

// bucket is an S3 bucket. Its requests are signed and path-style. There is no client for S3, because one kind of request is enough.
type bucket struct {
	client   *http.Client
	cfg      aws.Config
	signer   *v4.Signer
	endpoint string
	name     string
	mapping  string // the mapping's UUID, a part of the object keys
}

func openBucket(ctx context.Context, o *Options, name string) (*onFailure, error) {
	cfg, err := o.AWS(ctx)
	if err != nil {
		return nil, err
	}
	b := &bucket{
		client: &http.Client{Timeout: destinationTimeout, Transport: &http.Transport{Proxy: http.ProxyFromEnvironment}}, cfg: cfg,
		signer: v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }), name: name, mapping: newUUID(),
		endpoint: "https://s3." + cfg.Region + ".amazonaws.com",
	}
	if cfg.BaseEndpoint != nil {
		b.endpoint = strings.TrimRight(*cfg.BaseEndpoint, "/")
	}
	if err := promptly(ctx, func(ctx context.Context) error { return b.do(ctx, http.MethodHead, "", nil) }); err != nil {
		b.client.CloseIdleConnections()
		return nil, fmt.Errorf("the on-failure destination, bucket %s at %s: %w", name, b.endpoint, err)
	}
	return &onFailure{Destination: b, close: b.client.CloseIdleConnections}, nil
}

func (b *bucket) String() string { return "the bucket " + b.name }

// Send implements esm.Destination. Object keys are those that AWS documents for its streams, with the partition instead of the shard.
func (b *bucket) Send(ctx context.Context, f *esm.Failure) error {
	body, err := f.WithPayload()
	if err != nil {
		return err
	}
	key := fmt.Sprintf("aws/lambda/%s/%s/%s-%s", b.mapping, f.Records[0].Place().Partition, f.At.UTC().Format("2006/01/02/2006-01-02T15.04.05"), newUUID())
	return b.do(ctx, http.MethodPut, key, body)
}

func (b *bucket) do(ctx context.Context, method, key string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(b.endpoint+"/"+b.name+"/"+key, "/"), bytes.NewReader(body))
	if err != nil {
		return err
	}
	credentials, err := b.cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return fmt.Errorf("AWS credentials: %w", err)
	}
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:])
	req.Header.Set("X-Amz-Content-Sha256", hash)
	if err := b.signer.SignHTTP(ctx, credentials, req, hash, "s3", b.cfg.Region, time.Now()); err != nil {
		return err
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return err
	}
	text, readErr := io.ReadAll(io.LimitReader(resp.Body, 1000))
	if err := errors.Join(readErr, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, text)
	}
	return nil
}

// newUUID returns a random UUID, version 4.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the program instead
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// topic is a topic of the same cluster.
type topic struct {
	client *kgo.Client
	name   string
}

func openTopic(ctx context.Context, opts []kgo.Opt, name string, brokers []string) (*onFailure, error) {
	client, err := kgo.NewClient(append(slices.Clone(opts), kgo.SeedBrokers(brokers...), kgo.ClientID("idemsk-local-on-failure"),
		kgo.DefaultProduceTopic(name), kgo.RecordDeliveryTimeout(destinationTimeout), kgo.UnknownTopicRetries(1))...)
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

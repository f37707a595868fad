// The function of make aws-check that creates the topic and sends the payments, in the cluster's VPC.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/awscheck/order"
	"github.com/idemsk/idemsk/internal/kafkaauth"
)

func main() { lambda.Start(handle) }

// handle does what the order says: it creates the topic, or sends the payments.
func handle(ctx context.Context, o order.Order) (sent order.Sent, err error) {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return sent, fmt.Errorf("loading the AWS configuration: %w", err)
	}
	auth := kafkaauth.Config{Brokers: o.Brokers, Method: kafkaauth.IAM, AWS: cfg}
	options, err := auth.Options()
	if err != nil {
		return sent, err
	}
	// Idempotent writes need one more permission, and a duplicate is welcome here.
	client, err := kgo.NewClient(append(options, kgo.ClientID("aws-check"), kgo.DisableIdempotentWrite(),
		kgo.DefaultProduceTopic(o.Topic), kgo.RecordDeliveryTimeout(time.Minute))...)
	if err != nil {
		return sent, fmt.Errorf("the Kafka client: %w", err)
	}
	defer client.Close()
	if o.Payments.Records == 0 {
		return sent, createTopic(ctx, client, &o)
	}
	return send(ctx, client, &o)
}

const createTimeout = time.Minute

func createTopic(ctx context.Context, client *kgo.Client, o *order.Order) error {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = o.Topic, o.Partitions, -1
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis, req.Topics = int32(createTimeout.Milliseconds()), append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("creating the topic %s: %w", o.Topic, err)
	}
	for i := range resp.Topics {
		err := kerr.ErrorForCode(resp.Topics[i].ErrorCode)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("creating the topic %s: %w", o.Topic, err)
		}
	}
	return nil
}

func send(ctx context.Context, client *kgo.Client, o *order.Order) (sent order.Sent, err error) {
	first := kgo.AbortingFirstErrPromise(client)
	for m, err := range o.Payments.Messages(o.Topic) {
		if err != nil {
			return sent, err
		}
		r := &kgo.Record{Key: m.Key, Value: m.Value}
		for _, h := range m.Headers {
			r.Headers = append(r.Headers, kgo.RecordHeader(h))
		}
		client.Produce(ctx, r, first.Promise())
		sent.Records++
	}
	if err := first.Err(); err != nil {
		return sent, fmt.Errorf("producing to %s: %w", o.Topic, err)
	}
	return sent, nil
}

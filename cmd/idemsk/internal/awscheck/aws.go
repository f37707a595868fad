package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/awscheck/order"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/payments"
	"github.com/idemsk/idemsk/internal/mskevent"
)

// Times of the steps on AWS.
const (
	askTime     = 30 * time.Second
	producerMax = 6 * time.Minute // more than the producer's timeout
	drainEvery  = 15 * time.Second
	quietTime   = 2 * time.Minute // for duplicates behind the last new payment
)

// brokers asks MSK for the addresses of the cluster's brokers: operation GetBootstrapBrokers of
// https://docs.aws.amazon.com/msk/1.0/apireference/clusters-clusterarn-bootstrap-brokers.html, the only one
// that is needed of this API.
func (c *check) brokers(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf(
		"https://kafka.%s.%s/v1/clusters/%s/bootstrap-brokers", c.cfg.Region, domain(c.cfg.Region),
		url.PathEscape(c.out.ClusterArn)), http.NoBody)
	if err != nil {
		return nil, err
	}
	credentials, err := c.cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, err
	}
	empty := sha256.Sum256(nil)
	if err := v4.NewSigner().SignHTTP(ctx, credentials, req, hex.EncodeToString(empty[:]), "kafka",
		c.cfg.Region, time.Now()); err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	const most = 1 << 20
	body, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return nil, err
	}
	var answer struct {
		IAM string `json:"bootstrapBrokerStringSaslIam"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.IAM == "" {
		return nil, fmt.Errorf("GetBootstrapBrokers: %s: %.300s", resp.Status, body)
	}
	return strings.Split(answer.IAM, ","), nil
}

// domain is that of the services' endpoints in a region.
func domain(region string) string {
	if strings.HasPrefix(region, "cn-") {
		return "amazonaws.com.cn"
	}
	return "amazonaws.com"
}

// ask invokes the producer.
func (c *check) ask(ctx context.Context, p payments.Config) (sent order.Sent, err error) {
	brokers, err := c.brokers(ctx)
	if err != nil {
		return sent, fmt.Errorf("the cluster's brokers: %w", err)
	}
	payload, err := json.Marshal(order.Order{Brokers: brokers, Topic: topic, Partitions: partitions,
		Payments: p})
	if err != nil {
		return sent, err
	}
	client := lambda.NewFromConfig(c.cfg, func(o *lambda.Options) {
		o.HTTPClient = &http.Client{Timeout: producerMax}
		o.Retryer = aws.NopRetryer{} // the payments would be sent twice
	})
	out, err := client.Invoke(ctx, &lambda.InvokeInput{FunctionName: &c.out.ProducerName, Payload: payload})
	switch {
	case err != nil:
		return sent, fmt.Errorf("invoking the producer: %w", err)
	case out.FunctionError != nil:
		return sent, fmt.Errorf("the producer failed: %s", mskevent.ErrorMessage(out.Payload))
	}
	return sent, json.Unmarshal(out.Payload, &sent)
}

// createTopic creates the topic before the event source mapping, which looks for it when it is created. A
// new cluster's brokers may not answer at once.
func (c *check) createTopic(ctx context.Context) (err error) {
	const tries = 5
	for range tries {
		if _, err = c.ask(ctx, payments.Config{}); err == nil {
			return nil
		}
		c.Sayf("The topic can't be created yet: %v\n", err)
		if err := pause(ctx, askTime); err != nil {
			return err
		}
	}
	return err
}

func (c *check) send(ctx context.Context) error {
	sent, err := c.ask(ctx, c.payments)
	if err == nil && sent.Records != c.payments.Records {
		err = fmt.Errorf("the producer sent %d records; want %d", sent.Records, c.payments.Records)
	}
	return err
}

// drain waits until each expected key is settled, and then for duplicates behind the last one.
func (c *check) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, drainTime, errNotDrained)
	defer cancel()
	want, _, err := c.expected()
	if err != nil {
		return err
	}
	env, err := c.tables()
	if err != nil {
		return err
	}
	for {
		found, err := env.Read(ctx)
		if err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		left := unsettled(want, found.Statuses)
		if left == 0 {
			return pause(ctx, quietTime)
		}
		c.Sayf("%d keys are not settled yet.\n", left)
		if err := pause(ctx, drainEvery); err != nil {
			return fmt.Errorf("%d keys are not settled: %w", left, err)
		}
	}
}

var errNotDrained = fmt.Errorf("not everything was settled within %s", drainTime)

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// freezes reports whether a payment asks for a frozen process.
func freezes(value []byte) bool {
	var p payments.Payment
	return json.Unmarshal(value, &p) == nil && strings.HasPrefix(p.Simulate, "freeze:")
}

package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/idemsk/idemsk/internal/dynamofake"
	"github.com/idemsk/idemsk/internal/sqsfake"
)

// region and the credentials are made up, so that a run can't reach real tables by mistake.
const (
	region       = "us-east-1"
	accessKeyID  = "idemsk-replay"
	accessSecret = "not-a-secret"
)

// store is the DynamoDB and SQS of a run.
type store struct {
	name     string       // for people
	upstream http.Handler // DynamoDB, for the gate
	sqsURL   string
	dynamo   *dynamodb.Client // past the gate: what the harness itself asks is not counted
	sqs      *sqs.Client
	close    func() error
}

// answerTimeout bounds how long DynamoDB may take to answer when a run begins.
const answerTimeout = 5 * time.Second

// openStore starts the fakes, or points at what listens at a URL.
func openStore(ctx context.Context, where string) (*store, error) {
	if where == StoreFake {
		return startFakes()
	}
	target, err := url.Parse(where)
	if err != nil || target.Host == "" || (target.Scheme != "http" && target.Scheme != "https") {
		return nil, fmt.Errorf("%w: the store is %q: want fake, localstack, or the URL of an endpoint for DynamoDB and SQS", ErrOptions, where)
	}
	s := newStore(where, where, where)
	proxy := newProxy(target)
	s.upstream, s.close = proxy, func() error { closeIdle(proxy.Transport); return nil }
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if _, err := s.dynamo.ListTables(ctx, &dynamodb.ListTablesInput{}); err != nil {
		return nil, fmt.Errorf("no DynamoDB answers at %s (is LocalStack up? make localstack-up): %w", where, err)
	}
	return s, nil
}

func startFakes() (*store, error) {
	db, err1 := dynamofake.New(dynamofake.Config{})
	queues, err2 := sqsfake.New(sqsfake.Config{})
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	closeBoth := func() error { return errors.Join(db.Close(), queues.Close()) }
	if err := errors.Join(db.Start(), queues.Start()); err != nil {
		return nil, errors.Join(err, closeBoth())
	}
	s := newStore("the in-process DynamoDB", db.URL(), queues.URL())
	s.upstream, s.close = db, closeBoth
	return s, nil
}

func newStore(name, dynamoURL, sqsURL string) *store {
	cfg := aws.Config{Region: region, Credentials: credentials.NewStaticCredentialsProvider(accessKeyID, accessSecret, "")}
	return &store{
		name: name, sqsURL: sqsURL,
		dynamo: dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) { o.BaseEndpoint = &dynamoURL }),
		sqs:    sqs.NewFromConfig(cfg, func(o *sqs.Options) { o.BaseEndpoint = &sqsURL }),
	}
}

// newProxy passes requests on. It keeps as many connections as the function has.
func newProxy(target *url.URL) *httputil.ReverseProxy {
	const connections = 64
	return &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: &http.Transport{MaxIdleConnsPerHost: connections},
		ErrorLog:  log.New(io.Discard, "", 0),
	}
}

func closeIdle(t http.RoundTripper) {
	if t, ok := t.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}

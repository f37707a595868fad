// Package flags has the flags that several verbs have: AWS, Kafka, namespace and topic of a key, and the
// values NAME=VALUE and times.
package flags

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/testenv"
	"github.com/idemsk/idemsk/internal/awsclient"
)

// AWS are the flags of verbs that call AWS.
type AWS struct{ Endpoint, Region string }

// Declare declares the flags.
func (a *AWS) Declare(fs *flag.FlagSet) {
	fs.StringVar(&a.Endpoint, "endpoint-url", "",
		"the `URL` of the service instead of AWS's own, such as LocalStack's http://127.0.0.1:4566")
	a.DeclareRegion(fs)
}

// DeclareRegion declares --region alone.
func (a *AWS) DeclareRegion(fs *flag.FlagSet) {
	fs.StringVar(&a.Region, "region", "", "the AWS `REGION` (else AWS_REGION, or the profile's)")
}

// Load returns the SDK's configuration. For an endpoint on this machine, which does not check them, region
// and credentials default to those of idemsk local, because the SDK would search for them for a long time.
func (a *AWS) Load(ctx context.Context) (aws.Config, error) {
	opts := []func(*config.LoadOptions) error{config.WithLogger(logging.Nop{})} // the verb prints errors
	_, here, err := parseEndpoint(a.Endpoint)
	if err != nil {
		return aws.Config{}, err
	}
	if a.Region != "" {
		opts = append(opts, config.WithRegion(a.Region))
	}
	if here && os.Getenv("AWS_ACCESS_KEY_ID") == "" && os.Getenv("AWS_PROFILE") == "" {
		opts = append(opts, config.WithCredentialsProvider(
			credentials.NewStaticCredentialsProvider(testenv.AccessKeyID, testenv.AccessSecret, "")))
	}
	cfg, err := config.LoadDefaultConfig(ctx, opts...)
	if err != nil {
		return aws.Config{}, fmt.Errorf("loading the AWS configuration: %w", err)
	}
	if a.Endpoint != "" {
		cfg.BaseEndpoint = &a.Endpoint
	}
	if cfg.Region == "" && here {
		cfg.Region = testenv.Region
	}
	if cfg.Region == "" {
		return aws.Config{}, command.Usagef("no AWS region is set: give --region, or set AWS_REGION; for idemsk local, " +
			"give the --endpoint-url that its first lines name")
	}
	return cfg, nil
}

// attemptTimeout bounds one attempt of a request. It exceeds the one-second wait of an SQS long poll.
const attemptTimeout = 5 * time.Second

// BoundedHTTP returns an HTTP client with attemptTimeout. dynamostore.NewClient has its own.
func BoundedHTTP(cfg aws.Config) aws.HTTPClient { return awsclient.New(cfg.HTTPClient, attemptTimeout) }

// NewS3 returns a client of S3.
func NewS3(cfg aws.Config) *s3.Client {
	return s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.HTTPClient = BoundedHTTP(cfg)
		o.UsePathStyle = cfg.BaseEndpoint != nil // LocalStack has no name for each bucket
	})
}

// LocalEndpoint returns the endpoint in the URL of a resource on this machine, such as a queue; "" for others.
func LocalEndpoint(resource string) string {
	if u, here, err := parseEndpoint(resource); err == nil && here {
		return u.Scheme + "://" + u.Host
	}
	return ""
}

// Local reports whether the endpoint is on this machine.
func (a *AWS) Local() bool {
	_, here, err := parseEndpoint(a.Endpoint)
	return err == nil && here
}

// parseEndpoint parses an endpoint, if there is one, and reports whether it is on this machine.
func parseEndpoint(endpoint string) (u *url.URL, here bool, err error) {
	if endpoint == "" {
		return nil, false, nil
	}
	u, err = url.Parse(endpoint)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, false, command.Usagef(
			"--endpoint-url is %q: want an http or https URL, such as http://127.0.0.1:4566", endpoint)
	}
	ip := net.ParseIP(u.Hostname())
	return u, u.Hostname() == "localhost" || (ip != nil && ip.IsLoopback()), nil
}

// ExplainAWS adds a remedy to an error of the SDK.
func ExplainAWS(err error) error {
	var missing *types.ResourceNotFoundException
	var api smithy.APIError
	var op *smithy.OperationError
	switch {
	case errors.As(err, &missing):
		return fmt.Errorf("%w: check the name of the table, --region and --endpoint-url", err)
	case err == nil, errors.Is(err, context.Canceled), errors.As(err, &api):
		return err // the service answered
	case refusedHere(err) != "":
		return fmt.Errorf("%w (nothing listens at %s: start the service there, or change the address, such as "+
			"--endpoint-url or AWS_ENDPOINT_URL)", err, refusedHere(err))
	case errors.As(err, &op):
		return fmt.Errorf("%w (no answer from AWS: are there credentials (aws sts get-caller-identity), "+
			"is the region right, can the endpoint be reached?)", err)
	}
	return err
}

// refusedHere returns the address on this machine that refused a connection; "" for any other error.
func refusedHere(err error) string {
	var dial *net.OpError
	if !errors.Is(err, syscall.ECONNREFUSED) || !errors.As(err, &dial) {
		return ""
	}
	if at, ok := dial.Addr.(*net.TCPAddr); ok && at.IP.IsLoopback() {
		return at.String()
	}
	return ""
}

package app

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/idemsk/idemsk/idem/store"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/faultproxy"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/sqsdlq"
)

// behindProxy starts a service, and returns the SDK's configuration for it, through a proxy.
func behindProxy(t *testing.T, service http.Handler) (*faultproxy.Proxy, aws.Config) {
	t.Helper()
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	proxy, url := faultproxy.StartURL(t, server.URL)
	t.Cleanup(func() { proxy.Existing(faultproxy.Reset) })
	return proxy, aws.Config{Region: "eu-central-1", BaseEndpoint: &url, Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")}
}

// goesOn wants ask to succeed, also over a new connection when its own has failed, and to fail when nothing answers: each in the time of
// three attempts and their pauses.
func goesOn(t *testing.T, proxy *faultproxy.Proxy, ask func(ctx context.Context) error) {
	t.Helper()
	const limit = 4 * dynamostore.AttemptTimeout
	inTime := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		err := ask(ctx)
		if ctx.Err() != nil {
			t.Errorf("it took more than %v", limit)
		}
		return err
	}
	for what, fault := range map[string]faultproxy.Fault{"well": faultproxy.None, "reset": faultproxy.Reset, "silent": faultproxy.Silent} {
		if err := inTime(); err != nil {
			t.Fatal(err)
		}
		proxy.Existing(fault)
		if err := inTime(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	proxy.Existing(faultproxy.Silent)
	proxy.New(faultproxy.Silent)
	if err := inTime(); err == nil || !strings.Contains(err.Error(), "nothing was heard") && !strings.Contains(err.Error(), "deadline exceeded") {
		t.Errorf("nothing answers: %v", err)
	}
}

// An invocation has 15 seconds, say: one that waits for SQS as long has no time left to give the record's key back.
func TestADeadLetterIsSentWhenTheNetworkHasFallenSilent(t *testing.T) {
	t.Parallel()
	var size atomic.Int64
	proxy, awsCfg := behindProxy(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size.Store(r.ContentLength)
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		_, _ = w.Write([]byte(`{"MessageId":"m"}`))
	}))
	base := &Base{
		Config: Config{DeadLetterQueueURL: *awsCfg.BaseEndpoint + "/0/q", DeadLetterMaxBytes: sqsdlq.SmallestMaxBytes},
		awsCfg: func(context.Context) (aws.Config, error) { return awsCfg, nil },
	}
	queue := must(base.deadLetters(t.Context()))
	letter := kafka.DeadLetter{Topic: "payments", Value: make([]byte, sqsdlq.SmallestMaxBytes), Error: store.Failure{Code: store.CodePermanent}}
	goesOn(t, proxy, func(ctx context.Context) error { return queue.Send(ctx, letter) })
	equal(t, "the value is left out of a letter that is too large with it", size.Load() < sqsdlq.SmallestMaxBytes, true)
}

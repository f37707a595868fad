package app

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/lambda/msk"
	"github.com/idemsk/idemsk/lambda/msk/sqsdlq"
)

// wedged is a service that takes the first request and never answers it; all others go to next.
type wedged struct {
	next  http.Handler
	count atomic.Int32
	over  chan struct{}
}

// newWedged starts one, and returns the SDK's configuration for it.
func newWedged(t *testing.T, next http.Handler) (*wedged, aws.Config) {
	t.Helper()
	w := &wedged{next: next, over: make(chan struct{})}
	server := httptest.NewServer(w)
	t.Cleanup(func() {
		close(w.over)
		server.Close()
	})
	return w, aws.Config{Region: "eu-central-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")}
}

// ServeHTTP implements http.Handler.
func (s *wedged) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.count.Add(1) > 1 {
		s.next.ServeHTTP(w, r)
		return
	}
	<-s.over
}

// An invocation has 15 seconds, say: one that waits for SQS as long has no time left to give the record's key back.
func TestADeadLetterDoesNotWaitForAnAnswerThatNeverComes(t *testing.T) {
	t.Parallel()
	var size atomic.Int64
	service, awsCfg := newWedged(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size.Store(r.ContentLength)
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		_, _ = w.Write([]byte(`{"MessageId":"m"}`))
	}))
	base := &Base{
		Config: Config{DeadLetterQueueURL: *awsCfg.BaseEndpoint + "/0/q", DeadLetterMaxBytes: sqsdlq.SmallestMaxBytes},
		awsCfg: func(context.Context) (aws.Config, error) { return awsCfg, nil },
	}
	queue := must(base.deadLetters(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), 3*attemptTimeout)
	defer cancel()
	begun := time.Now()
	letter := msk.DeadLetter{Topic: "payments", Value: make([]byte, sqsdlq.SmallestMaxBytes), Error: idem.Failure{Code: idem.CodePermanent}}
	if err := queue.Send(ctx, letter); err != nil {
		t.Errorf("after %v: %v", time.Since(begun), err)
	}
	equal(t, "requests", service.count.Load(), 2)
	equal(t, "the value is left out of a letter that is too large with it", size.Load() < sqsdlq.SmallestMaxBytes, true)
}

func TestAClientThatBoundsItsAttemptsIsLeftAlone(t *testing.T) {
	own := &http.Client{Timeout: time.Hour}
	equal(t, "somebody's own", withTimeout(own), aws.HTTPClient(own))
	bounded := withTimeout(nil)
	equal(t, "one with a time-out", withTimeout(bounded), bounded)
}

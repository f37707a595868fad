package local_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/esm"
)

func TestOnFailureToAQueueInThisProcess(t *testing.T) {
	t.Parallel()
	o, _ := options(t, "fails")
	o.Produce, o.ESM.MaximumRetryAttempts, o.ESM.OnFailure = 20, 0, "arn:aws:sqs:us-east-1:000000000000:gave-up"
	report, err := run(t, o)
	if err != nil {
		t.Fatal(err)
	}
	if report.GivenUp[esm.RetryAttemptsExhausted] != 20 || report.Sent != 20 || report.Lag() != 0 || report.Failed != report.Invocations {
		t.Errorf("%+v", report)
	}
	if text := report.Text(); !strings.Contains(text, "20 records: RetryAttemptsExhausted") || !strings.Contains(text, "20 records at the on-failure destination") {
		t.Errorf("%s", text)
	}
}

func TestOnFailureToATopic(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	o, _ := options(t, "fails")
	o.Brokers, o.ESM.MaximumRetryAttempts, o.ESM.OnFailure = c.ListenAddrs(), 0, "kafka://letters"
	report, err := run(t, o)
	if err != nil || report.Sent != 2 {
		t.Fatal(report, err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics("letters"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var got []string
	for len(got) < 2 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		for _, r := range fetches.Records() {
			got = append(got, string(r.Key))
			if !strings.Contains(string(r.Value), `"condition":"RetriesExhausted"`) {
				t.Errorf("%s", r.Value)
			}
		}
	}
	if got[0] != "key-a" || got[1] != "key-b" {
		t.Errorf("keys %v", got)
	}
	o.ESM.OnFailure, o.ESM.ConsumerGroup = "kafka://nowhere", "other"
	if _, err := run(t, o); err == nil || !strings.Contains(err.Error(), "the topic nowhere rejected 2 records") {
		t.Errorf("an unknown topic: %v", err)
	}
}

func TestOnFailureToABucket(t *testing.T) {
	t.Parallel()
	var puts []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case !strings.Contains(r.Header.Get("Authorization"), "/us-east-1/s3/aws4_request"):
			w.WriteHeader(http.StatusForbidden)
		case r.Method == http.MethodHead && r.URL.Path == "/there":
		case r.Method == http.MethodPut:
			puts = append(puts, r.URL.Path+" "+string(body))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	o, _ := options(t, "fails")
	o.Produce, o.ESM.MaximumRetryAttempts, o.ESM.OnFailure, o.ESM.BatchSize = 10, 0, "arn:aws:s3:::there", 10
	o.Endpoint = true
	o.AWS = func(context.Context) (aws.Config, error) {
		return aws.Config{Region: "us-east-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")}, nil
	}
	report, err := run(t, o)
	if err != nil || report.Sent != 10 {
		t.Fatal(report, err)
	}
	key := regexp.MustCompile(`^/there/aws/lambda/[0-9a-f-]{36}/payments-\d/\d{4}/\d\d/\d\d/\d{4}-\d\d-\d\dT\d\d\.\d\d\.\d\d-[0-9a-f-]{36} \{`)
	for _, put := range puts {
		if !key.MatchString(put) || !strings.Contains(put, `"payload":"{\"eventSource\"`) {
			t.Errorf("%s", put)
		}
	}
	o.ESM.OnFailure = "s3://nowhere"
	if _, err := run(t, o); err == nil || !strings.Contains(err.Error(), "bucket nowhere at "+server.URL+": 404") {
		t.Errorf("an unknown bucket: %v", err)
	}
}

package local_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
)

func TestOnFailureToAQueueInThisProcess(t *testing.T) {
	t.Parallel()
	o, _ := options(t, "fails")
	o.Produce, o.ESM.MaximumRetryAttempts, o.ESM.OnFailure = 20, 0,
		"arn:aws:sqs:us-east-1:000000000000:gave-up"
	report := mustRun(t, o)
	if report.GivenUp[esm.RetryAttemptsExhausted] != 20 || report.Sent != 20 || report.Lag() != 0 ||
		report.Failed != report.Invocations {
		t.Errorf("%+v", report)
	}
	if text := report.Text(); !strings.Contains(text, "20 records: RetryAttemptsExhausted") ||
		!strings.Contains(text, "20 records at the on-failure destination") {
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
	if _, err := run(t, o); err == nil ||
		!strings.Contains(err.Error(), "the topic nowhere rejected 2 records") {
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
		return aws.Config{Region: "us-east-1", BaseEndpoint: &server.URL,
			Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")}, nil
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
	if _, err := run(t, o); err == nil || !strings.Contains(err.Error(), "bucket nowhere at "+server.URL+": ") ||
		!strings.Contains(err.Error(), "404") {
		t.Errorf("an unknown bucket: %v", err)
	}
}

// snsServer is an SNS with the topic gave-up.
type snsServer struct {
	mu        sync.Mutex
	published []string
	asked     int // the status of GetTopicAttributes for gave-up
}

func (s *snsServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	form, err := url.ParseQuery(string(body))
	switch {
	case err != nil || r.Method != http.MethodPost || r.URL.Path != "/" ||
		!strings.Contains(r.Header.Get("Authorization"), "/eu-west-1/sns/aws4_request"):
		w.WriteHeader(http.StatusBadRequest)
	case form.Get("TopicArn") != "arn:aws:sns:eu-west-1:000000000000:gave-up":
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "<ErrorResponse><Error><Code>NotFound</Code></Error></ErrorResponse>")
	case form.Get("Action") == "GetTopicAttributes":
		w.WriteHeader(s.asked)
		_, _ = io.WriteString(w, "<GetTopicAttributesResponse><GetTopicAttributesResult/></GetTopicAttributesResponse>")
	case form.Get("Action") == "Publish":
		s.published = append(s.published, form.Get("Message"))
		_, _ = io.WriteString(w, "<PublishResponse><PublishResult/></PublishResponse>")
	default:
		w.WriteHeader(http.StatusBadRequest)
	}
}

// The message is the metadata, without the records, as for SQS. The topic's region signs, not that of the
// configuration.
func TestOnFailureToSNS(t *testing.T) {
	t.Parallel()
	for _, asked := range []int{http.StatusOK, http.StatusForbidden} {
		sns := &snsServer{asked: asked}
		server := httptest.NewServer(sns)
		defer server.Close()
		o, _ := options(t, "fails")
		o.Produce, o.ESM.MaximumRetryAttempts, o.ESM.BatchSize, o.Endpoint = 10, 0, 10, true
		o.ESM.OnFailure = "arn:aws:sns:eu-west-1:000000000000:gave-up"
		o.AWS = func(context.Context) (aws.Config, error) {
			return aws.Config{Region: "us-east-1", BaseEndpoint: &server.URL,
				Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")}, nil
		}
		report, err := run(t, o)
		if err != nil || report.Sent != 10 {
			t.Fatal(report, err)
		}
		records := 0
		for _, text := range sns.published {
			var message struct {
				RequestContext struct{ Condition string }
				Version        string
				KafkaBatchInfo struct {
					BatchSize   int
					RecordsInfo map[string]any
				}
				Payload any
			}
			err := json.Unmarshal([]byte(text), &message)
			if err != nil || message.RequestContext.Condition != esm.RetryAttemptsExhausted ||
				message.Version != "1.0" ||
				len(message.KafkaBatchInfo.RecordsInfo) == 0 || message.Payload != nil {
				t.Errorf("%s: %v", text, err)
			}
			records += message.KafkaBatchInfo.BatchSize
		}
		if records != 10 {
			t.Errorf("the messages are about %d records; want 10: %q", records, sns.published)
		}
		o.ESM.OnFailure = "arn:aws:sns:eu-west-1:000000000000:nowhere"
		if _, err := run(t, o); err == nil ||
			!strings.Contains(err.Error(),
				o.ESM.OnFailure+" at "+server.URL+": ") || !strings.Contains(err.Error(), "404") {
			t.Errorf("an unknown topic: %v", err)
		}
		o.ESM.OnFailure = "arn:aws:sns:gave-up"
		if _, err := run(t, o); err == nil ||
			!strings.Contains(err.Error(), "want arn:aws:sns:REGION:ACCOUNT:TOPIC") {
			t.Errorf("no ARN: %v", err)
		}
	}
}

package awstest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// S3 is an in-process S3. It stores objects by their path, or refuses with an error code.
type S3 struct {
	Fault string // the code with which every request is refused, "" for none

	mu      sync.Mutex
	objects map[string][]byte
}

// Put stores an object under the path /BUCKET/KEY.
func (s *S3) Put(path string, object []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects == nil {
		s.objects = make(map[string][]byte)
	}
	s.objects[path] = object
}

// Len returns the number of objects.
func (s *S3) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.objects)
}

// ServeHTTP implements http.Handler.
func (s *S3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	object, found := s.objects[r.URL.Path]
	s.mu.Unlock()
	fault := s.Fault
	if r.Method == http.MethodGet && !found && fault == "" {
		fault = "NoSuchKey"
	}
	switch {
	case fault != "":
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `<Error><Code>%s</Code><Message>the fake refuses</Message></Error>`, fault)
	case r.Method == http.MethodPut:
		object, _ = io.ReadAll(r.Body)
		s.Put(r.URL.Path, object)
	default:
		_, _ = w.Write(object)
	}
}

// Start serves the S3 until the test ends, and returns its endpoint.
func (s *S3) Start(tb testing.TB) (endpoint string) {
	tb.Helper()
	server := httptest.NewServer(s)
	tb.Cleanup(server.Close)
	return server.URL
}

// S3Client returns a client of the S3 at an endpoint, which sends a request once.
func S3Client(tb testing.TB, endpoint string) *s3.Client {
	tb.Helper()
	return s3.NewFromConfig(Config(tb, endpoint), func(o *s3.Options) { o.UsePathStyle, o.RetryMaxAttempts = true, 1 })
}

// Package s3test is an in-process S3 for tests, and a client for it and for LocalStack.
package s3test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/idemsk/idemsk/internal/testkit/awstest"
)

// Server is an in-process S3. It stores objects by their path, or refuses with an error code.
type Server struct {
	Fault string // the code with which every request is refused, "" for none

	mu      sync.Mutex
	objects map[string][]byte
}

// Put stores an object under the path /BUCKET/KEY.
func (s *Server) Put(path string, object []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects == nil {
		s.objects = make(map[string][]byte)
	}
	s.objects[path] = object
}

// Len returns the number of objects.
func (s *Server) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.objects)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
		_, _ = fmt.Fprintf(w, `<Error><Code>%s</Code><Message>the fake refuses</Message></Error>`, fault)
	case r.Method == http.MethodPut:
		object, _ = io.ReadAll(r.Body)
		s.Put(r.URL.Path, object)
	default:
		_, _ = w.Write(object)
	}
}

// Start serves the S3 until the test ends, and returns its endpoint.
func (s *Server) Start(tb testing.TB) (endpoint string) {
	tb.Helper()
	server := httptest.NewServer(s)
	tb.Cleanup(server.Close)
	return server.URL
}

// Client returns a client of the S3 at an endpoint, which sends a request once.
func Client(tb testing.TB, endpoint string) *s3.Client {
	tb.Helper()
	return s3.NewFromConfig(awstest.Config(tb, endpoint), func(o *s3.Options) { o.UsePathStyle, o.RetryMaxAttempts = true, 1 })
}

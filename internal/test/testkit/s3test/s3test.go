// Package s3test is an in-process S3 for tests, and a client for it and for LocalStack.
package s3test

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
)

// Server is an in-process S3. It stores objects by their path, or refuses with an error code.
type Server struct {
	Fault string // the code with which every request is refused, "" for none

	mu      sync.Mutex
	objects map[string]object
}

type object struct {
	content []byte
	at      time.Time
}

// Put stores an object under the path /BUCKET/KEY.
func (s *Server) Put(path string, content []byte) { s.PutAt(path, content, time.Now()) }

// PutAt stores an object that was written at a time.
func (s *Server) PutAt(path string, content []byte, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects == nil {
		s.objects = make(map[string]object)
	}
	s.objects[path] = object{content, at}
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
	stored, found := s.objects[r.URL.Path]
	s.mu.Unlock()
	fault, listing := s.Fault, r.URL.Query().Has("list-type")
	if r.Method == http.MethodGet && !found && !listing && fault == "" {
		fault = "NoSuchKey"
	}
	switch {
	case fault != "":
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprintf(w, `<Error><Code>%s</Code><Message>the fake refuses</Message></Error>`, fault)
	case listing:
		s.list(w, strings.TrimSuffix(r.URL.Path, "/")+"/", r.URL.Query().Get("prefix"))
	case r.Method == http.MethodPut:
		content, _ := io.ReadAll(r.Body)
		s.Put(r.URL.Path, content)
	default:
		_, _ = w.Write(stored.content)
	}
}

// list answers ListObjectsV2 with one page.
func (s *Server) list(w io.Writer, bucket, prefix string) {
	type entry struct {
		Key          string
		LastModified time.Time
	}
	var page struct {
		XMLName  xml.Name `xml:"ListBucketResult"`
		Contents []entry
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, o := range s.objects {
		if strings.HasPrefix(path, bucket+prefix) {
			page.Contents = append(page.Contents,
				entry{strings.TrimPrefix(path, bucket), o.at.UTC().Truncate(time.Second)})
		}
	}
	_ = xml.NewEncoder(w).Encode(page)
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
	return s3.NewFromConfig(awstest.Config(tb, endpoint),
		func(o *s3.Options) { o.UsePathStyle, o.RetryMaxAttempts = true, 1 })
}

package confluent

import (
	"fmt"
	"io"
	"net/http"
)

// The maximum size of an answer, and of one that has an error, whose text is for a log and is cut. A registry
// takes schemas of about 1 MB, because each is a Kafka record.
const (
	maxAnswer = 4 << 20
	maxError  = 4 << 10
)

// bounded is a transport whose answers have a maximum size.
type bounded struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		resp.Body = answer{io.LimitReader(resp.Body, maxError), resp.Body}
	} else {
		resp.Body = answer{&atMost{resp.Body, maxAnswer}, resp.Body}
	}
	return resp, nil
}

// answer is the body of an answer, read through another reader.
type answer struct {
	io.Reader
	io.Closer
}

// atMost reads up to a number of bytes. More are an error.
type atMost struct {
	io.Reader
	left int
}

// Read implements io.Reader.
func (a *atMost) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	if a.left -= n; a.left < 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes: it is not taken for a schema", maxAnswer)
	}
	return n, err
}

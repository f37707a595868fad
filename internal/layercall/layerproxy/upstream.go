package layerproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"time"
)

// The parts of the Runtime API that the layer takes part in.
const (
	pathNext       = "/2018-06-01/runtime/invocation/next"
	pathInvocation = "/2018-06-01/runtime/invocation/"
	pathInitError  = "/2018-06-01/runtime/init/error"

	headerRequestID = "Lambda-Runtime-Aws-Request-Id"
	headerDeadline  = "Lambda-Runtime-Deadline-Ms"
	headerErrorType = "Lambda-Runtime-Function-Error-Type" // a trailer of a streamed answer too
)

// upstream is a client of Lambda's Runtime API.
type upstream struct {
	base *url.URL
	// has no timeout: the next invocation may be hours away, and Lambda freezes the process meanwhile
	http  *http.Client
	proxy *httputil.ReverseProxy
}

// newUpstream returns a client for a number of invocations at once.
func newUpstream(address string, invocations int) *upstream {
	// without a proxy, whatever the environment says
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 2 * invocations}
	u := &upstream{base: &url.URL{Scheme: "http", Host: address}, http: &http.Client{Transport: transport}}
	u.proxy = &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(u.base)
			// the server fills this map at the end of the body, and the transport sends it then
			r.Out.Trailer = r.In.Trailer
		},
	}
	return u
}

// event is an answer to a request for the next invocation.
type event struct {
	status  int
	header  http.Header
	payload []byte
}

// next waits for the next invocation. The header is that of the runtime's request.
func (u *upstream) next(ctx context.Context, header http.Header) (*event, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.base.JoinPath(pathNext).String(), http.NoBody) //nolint:gosec // Lambda gives the address
	if err != nil {
		return nil, err
	}
	req.Header = header.Clone()
	resp, err := u.http.Do(req) //nolint:gosec // as above
	if err != nil {
		return nil, fmt.Errorf("asking for the next invocation: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	// does not grow if the length is known
	payload := bytes.NewBuffer(make([]byte, 0, max(0, resp.ContentLength)+bytes.MinRead))
	if _, err := payload.ReadFrom(resp.Body); err != nil {
		return nil, fmt.Errorf("reading the next invocation: %w", err)
	}
	return &event{status: resp.StatusCode, header: resp.Header, payload: payload.Bytes()}, nil
}

func (e *event) id() string { return e.header.Get(headerRequestID) }

// deadline returns when Lambda ends the invocation.
func (e *event) deadline() (time.Time, error) {
	ms, err := strconv.ParseInt(e.header.Get(headerDeadline), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("the invocation %s has no deadline: %s is %q", e.id(), headerDeadline,
			e.header.Get(headerDeadline))
	}
	return time.UnixMilli(ms), nil
}

// answer sends the answer of an invocation.
func (u *upstream) answer(ctx context.Context, id string, payload []byte) error {
	return u.post(ctx, pathInvocation+id+"/response", payload, nil)
}

// fail sends the error of an invocation.
func (u *upstream) fail(ctx context.Context, id, kind, message string) error {
	return u.failAt(ctx, pathInvocation+id+"/error", kind, message)
}

// failInit tells that the function can't start.
func (u *upstream) failInit(ctx context.Context, kind, message string) error {
	return u.failAt(ctx, pathInitError, kind, message)
}

func (u *upstream) failAt(ctx context.Context, path, kind, message string) error {
	body, err := json.Marshal(map[string]any{"errorMessage": message, "errorType": kind,
		"stackTrace": []string{}})
	if err != nil {
		return err
	}
	return u.post(ctx, path, body, http.Header{headerErrorType: {kind}})
}

func (u *upstream) post(ctx context.Context, path string, body []byte, header http.Header) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.base.JoinPath(path).String(), bytes.NewReader(body)) //nolint:gosec // as above
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := u.http.Do(req) //nolint:gosec // as above
	if err != nil {
		return fmt.Errorf("sending to the Runtime API: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("reading the answer of the Runtime API to %s: %w", path, err)
	}
	if resp.StatusCode != http.StatusAccepted {
		return fmt.Errorf("the Runtime API refused %s: %s: %s", path, resp.Status, text)
	}
	return nil
}

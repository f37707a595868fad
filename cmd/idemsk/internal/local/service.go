package local

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// service sends signed requests to a service of AWS. It is for services of which one kind of request is
// enough, instead of their clients.
type service struct {
	client   *http.Client
	cfg      aws.Config
	signer   *v4.Signer
	name     string // in the signature
	region   string
	endpoint string
}

// newService returns the service in a region, "" for that of the configuration, or at the endpoint of the
// configuration.
func newService(ctx context.Context, o *Options, name, region string) (*service, error) {
	cfg, err := o.AWS(ctx)
	if err != nil {
		return nil, err
	}
	s := &service{
		client: &http.Client{Timeout: destinationTimeout,
			Transport: &http.Transport{Proxy: http.ProxyFromEnvironment}}, cfg: cfg, name: name,
		signer: v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }),
		region: cmp.Or(region, cfg.Region),
	}
	s.endpoint = "https://" + name + "." + s.region + ".amazonaws.com"
	if cfg.BaseEndpoint != nil {
		s.endpoint = strings.TrimRight(*cfg.BaseEndpoint, "/")
	}
	return s, nil
}

// statusError is an answer with another status than 200.
type statusError struct {
	code         int
	status, text string
}

func (e *statusError) Error() string { return e.status + ": " + e.text }

// do sends a request. A POST has a form.
func (s *service) do(ctx context.Context, method, path string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, method, s.endpoint+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	}
	credentials, err := s.cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return fmt.Errorf("AWS credentials: %w", err)
	}
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:])
	req.Header.Set("X-Amz-Content-Sha256", hash)
	if err := s.signer.SignHTTP(ctx, credentials, req, hash, s.name, s.region, time.Now()); err != nil {
		return err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	text, readErr := io.ReadAll(io.LimitReader(resp.Body, 1000))
	if err := errors.Join(readErr, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return &statusError{resp.StatusCode, resp.Status, string(text)}
	}
	return nil
}

func (s *service) close() { s.client.CloseIdleConnections() }

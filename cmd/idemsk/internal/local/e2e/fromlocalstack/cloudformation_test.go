//go:build rest

package fromlocalstack_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// stack is a CloudFormation stack.
type stack struct {
	name string
	cfg  aws.Config
}

// deployStack creates a stack of resources. It is deleted with the test.
func deployStack(t *testing.T, cfg aws.Config, name string, resources map[string]any) {
	t.Helper()
	template, err := json.Marshal(map[string]any{"AWSTemplateFormatVersion": "2010-09-09",
		"Resources": resources})
	if err != nil {
		t.Fatal(err)
	}
	s := &stack{name: name, cfg: cfg}
	if _, err := s.ask(t.Context(), "CreateStack", "TemplateBody", string(template)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := s.ask(context.Background(), "DeleteStack"); err != nil {
			t.Error(err)
		}
		s.wait(t, "DELETE_COMPLETE")
	})
	s.wait(t, "CREATE_COMPLETE")
}

// wait waits until the stack has a status. It fails if the stack ends in another one.
func (s *stack) wait(t *testing.T, state string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for status := ""; ; {
		answer, err := s.ask(ctx, "DescribeStacks")
		if err != nil && strings.Contains(err.Error(), "does not exist") {
			status = "DELETE_COMPLETE"
		} else if err != nil {
			t.Error(err)
			return
		} else if found := regexp.MustCompile(`<StackStatus>(\w+)</StackStatus>`).FindStringSubmatch(
			answer); found != nil {
			status = found[1]
		}
		if status == state {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the stack %s is %s; want %s\n%s", s.name, status, state, answer)
		case <-ticker.C:
			if status != "" && !strings.HasSuffix(status, "_IN_PROGRESS") {
				t.Fatalf("the stack %s ended as %s; want %s\n%s", s.name, status, state, answer)
			}
		}
	}
}

// ask sends a request about the stack. more are additional parameters: a name, its value, and so on.
func (s *stack) ask(ctx context.Context, action string, more ...string) (answer string, err error) {
	form := url.Values{"Action": {action}, "Version": {"2010-05-15"}, "StackName": {s.name}}
	for i := 0; i < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	body := form.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, *s.cfg.BaseEndpoint, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	credentials, err := s.cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(body))
	if err := v4.NewSigner().SignHTTP(ctx, credentials, req, hex.EncodeToString(sum[:]), "cloudformation",
		s.cfg.Region, time.Now()); err != nil {
		return "", err
	}
	resp, err := s.cfg.HTTPClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s of the stack %s: %s: %s", action, s.name, resp.Status, text)
	}
	return string(text), err
}

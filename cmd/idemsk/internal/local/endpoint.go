package local

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/smithy-go"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/internal/awsclient"
	"github.com/idemsk/idemsk/internal/mskevent"
)

// endpoint invokes a function at a Lambda Invoke endpoint: that of AWS, of LocalStack, or a Runtime Interface
// Emulator.
type endpoint struct {
	client    *lambda.Client
	transport *http.Transport
	name      string
	url       string
	tally     *tally
}

const (
	answerTimeout = 5 * time.Second  // of requests at the start of a run
	answerSlack   = 10 * time.Second // added to the function's timeout
)

// promptly calls ask, for at most answerTimeout.
func promptly(ctx context.Context, ask func(ctx context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	err := ask(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("no answer within %v: %w", answerTimeout, err)
	}
	return err
}

// dialEndpoint creates the client. It returns an error if the endpoint does not answer.
func dialEndpoint(ctx context.Context, o *Options, t *tally) (*endpoint, error) {
	base, name, err := splitInvokeURL(o.Invoke, o.FunctionName)
	if err != nil {
		return nil, err
	}
	cfg, err := o.AWS(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkFunction(ctx, lambda.NewFromConfig(cfg,
		func(l *lambda.Options) { l.BaseEndpoint = &base }), base, name); err != nil {
		return nil, err
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: o.ESM.Pollers}
	client := lambda.NewFromConfig(cfg, func(l *lambda.Options) {
		l.BaseEndpoint = &base
		l.Retryer = aws.NopRetryer{} // the mapping retries
		l.HTTPClient = awsclient.New(&http.Client{Transport: transport, Timeout: o.ESM.Timeout + answerSlack},
			0)
	})
	return &endpoint{client: client, transport: transport, name: name, url: base, tally: t}, nil
}

// splitInvokeURL parses http://host, or http://host/2015-03-31/functions/NAME/invocations.
func splitInvokeURL(text, name string) (base, function string, err error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "", "", optionsf("--invoke is %q: want a URL such as http://127.0.0.1:4566 or http://127.0.0.1:8080/2015-03-31/functions/function/invocations", text)
	}
	base = u.Scheme + "://" + u.Host
	path := strings.Trim(u.Path, "/")
	if path == "" {
		return base, name, nil
	}
	parts := strings.Split(path, "/")
	if len(parts) != 4 || parts[0] != "2015-03-31" || parts[1] != "functions" || parts[3] != "invocations" {
		return "", "", optionsf("--invoke has the path /%s: want none, or /2015-03-31/functions/NAME/invocations", path)
	}
	return base, parts[2], nil
}

// checkFunction returns an error if there is no answer, or if the function does not exist. It accepts any
// other answer: a Runtime Interface Emulator supports invocations only, and a role that may invoke a function
// may not be allowed to read it.
func checkFunction(ctx context.Context, client *lambda.Client, base, name string) error {
	err := promptly(ctx, func(ctx context.Context) error {
		_, err := client.GetFunction(ctx, &lambda.GetFunctionInput{FunctionName: &name})
		return err
	})
	var missing *types.ResourceNotFoundException
	var response *awshttp.ResponseError
	switch {
	case errors.As(err, &missing):
		return fmt.Errorf("there is no function %s at %s: deploy it, or check --function-name: %w", name,
			base, err)
	case err == nil, errors.As(err, &response) && response.Response != nil && response.HTTPStatusCode() != 0:
		return nil
	}
	return fmt.Errorf("no Lambda endpoint answers at %s: start it, or check --invoke: %w", base, err)
}

// Invoke implements esm.Invoker.
func (e *endpoint) Invoke(ctx context.Context, inv *esm.Invocation) (esm.Answer, error) {
	out, err := e.client.Invoke(ctx, &lambda.InvokeInput{
		FunctionName: &e.name, Payload: inv.Payload, InvocationType: types.InvocationTypeRequestResponse,
		LogType: types.LogTypeTail,
	})
	if err != nil {
		return esm.Answer{}, e.explain(err)
	}
	e.count(aws.ToString(out.LogResult))
	answer := esm.Answer{Payload: out.Payload, FunctionError: aws.ToString(out.FunctionError)}
	answer.RequestID, _ = awsmiddleware.GetRequestIDMetadata(out.ResultMetadata)
	if answer.FunctionError != "" {
		answer.Message = mskevent.ErrorMessage(out.Payload)
	}
	return answer, nil
}

// recordedEndpoint is the endpoint for one poller, whose invocations are recorded.
type recordedEndpoint struct {
	*endpoint
	slot *slot
}

// Invoke implements esm.Invoker.
func (e *recordedEndpoint) Invoke(ctx context.Context, inv *esm.Invocation) (esm.Answer, error) {
	return e.slot.invoke(ctx, inv, e.endpoint.Invoke)
}

// Close implements esm.Invoker.
func (e *endpoint) Close(context.Context) { e.transport.CloseIdleConnections() }

// count counts the metrics in the end of the function's log, which is in the answer.
func (e *endpoint) count(tail string) {
	text, err := base64.StdEncoding.DecodeString(tail)
	if err != nil {
		return // without the log there are no metrics
	}
	for line := range bytes.Lines(text) {
		e.tally.printed(line)
	}
}

// explain describes an error, as an *esm.UnavailableError if the invocation can be retried.
func (e *endpoint) explain(err error) error {
	var missing *types.ResourceNotFoundException
	var api smithy.APIError
	var response *awshttp.ResponseError
	switch {
	case errors.As(err, &missing):
		return fmt.Errorf("there is no function %s at %s: deploy it, or check --function-name: %w", e.name,
			e.url, err)
	case errors.As(err, &response) && (response.HTTPStatusCode() == http.StatusTooManyRequests ||
		response.HTTPStatusCode() >= http.StatusInternalServerError):
		return &esm.UnavailableError{Err: err}
	case errors.As(err, &api):
		return fmt.Errorf("invoking %s at %s: %w", e.name, e.url, err)
	}
	return &esm.UnavailableError{Err: err}
}

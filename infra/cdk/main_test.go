package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"
)

var update = flag.Bool("update", false, "write testdata anew")

// TestMain starts the CDK's runtime once for all tests: a start costs seconds.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := requireNode(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "these tests synthesise the stack:", err)
		os.Exit(1)
	}
	code := m.Run()
	jsii.Close()
	os.Exit(code)
}

const (
	cluster    = "arn:aws:kafka:eu-central-1:111122223333:cluster/payments/6cc0432b-8618-4f44-bccc-e1fbd8fb7c4d-2"
	serverless = "arn:aws:kafka:eu-central-1:111122223333:cluster/payments/6cc0432b-8618-4f44-bccc-e1fbd8fb7c4d-s3"
	secret     = "arn:aws:secretsmanager:eu-central-1:111122223333:secret:AmazonMSK_payments-AbCdEf"
	kmsKey     = "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
)

type values = map[string]any

// plain returns the least settings of a function of one's own, changed and added to by those given.
func plain(t *testing.T, more ...values) values {
	t.Helper()
	context := values{"clusterArn": cluster, "topics": "payments", "consumerGroup": "payments-ledger",
		"code": code(t)}
	for _, m := range more {
		for name, value := range m {
			if value == nil {
				delete(context, name)
				continue
			}
			context[name] = value
		}
	}
	return context
}

// code is a directory with a program that is always the same, so that assets are too.
func code(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "bootstrap"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// checked reads and checks settings, without a build. The settings are returned with an error of the check.
func checked(context values, environ ...string) (*settings, error) {
	s, err := readSettings(context, environ)
	if err != nil {
		return nil, err
	}
	return s, s.check()
}

// build builds the stack of some settings.
func build(t *testing.T, context values) *stack {
	t.Helper()
	s, err := checked(context)
	if err != nil {
		t.Fatalf("the settings: %v", err)
	}
	app := awscdk.NewApp(&awscdk.AppProps{Outdir: jsii.String(t.TempDir()),
		AnalyticsReporting: jsii.Bool(false), TreeMetadata: jsii.Bool(false)})
	return newStack(app, s)
}

// template is a synthesised one.
type template map[string]any

// synthesise returns the template of some settings.
func synthesise(t *testing.T, context values) template {
	t.Helper()
	return templateOf(t, build(t, context).Stack)
}

func templateOf(t *testing.T, st awscdk.Stack) template {
	t.Helper()
	out, err := json.Marshal(assertions.Template_FromStack(st, nil).ToJSON())
	if err != nil {
		t.Fatal(err)
	}
	var tpl template
	if err := json.Unmarshal(out, &tpl); err != nil {
		t.Fatal(err)
	}
	return tpl
}

// of returns the properties of the resources of a type, by logical ID.
func (tpl template) of(kind string) map[string]values {
	found := make(map[string]values)
	for id, resource := range tpl["Resources"].(values) {
		if r := resource.(values); r["Type"] == kind {
			found[id], _ = r["Properties"].(values)
		}
	}
	return found
}

// one returns the properties of the one resource of a type.
func (tpl template) one(t *testing.T, kind string) values {
	t.Helper()
	found := tpl.of(kind)
	if len(found) != 1 {
		t.Fatalf("there are %d resources of type %s; want 1", len(found), kind)
	}
	for _, properties := range found {
		return properties
	}
	return nil
}

// at walks into nested values: by key, and by index into lists.
func at(t *testing.T, v any, path ...any) any {
	t.Helper()
	for i, step := range path {
		switch step := step.(type) {
		case string:
			m, ok := v.(values)
			if !ok {
				t.Fatalf("%v: %v is no object", path[:i], v)
			}
			v = m[step]
		case int:
			l, ok := v.([]any)
			if !ok || step >= len(l) {
				t.Fatalf("%v: %v has no element %d", path[:i], v, step)
			}
			v = l[step]
		}
	}
	return v
}

// equal compares what a test got with what it wants, as JSON.
func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	g, w := text(got), text(want)
	if gotJSON, err := json.Marshal(got); err == nil {
		g = string(gotJSON)
	}
	if wantJSON, err := json.Marshal(want); err == nil {
		w = string(wantJSON)
	}
	if g != w {
		t.Errorf("%s is %s; want %s", what, g, w)
	}
}

// getAtt is a reference to an attribute of the one resource whose logical ID begins so.
func (tpl template) getAtt(t *testing.T, prefix, attribute string) values {
	t.Helper()
	return values{"Fn::GetAtt": []any{tpl.id(t, prefix), attribute}}
}

func (tpl template) ref(t *testing.T, prefix string) values {
	t.Helper()
	return values{"Ref": tpl.id(t, prefix)}
}

var hash = regexp.MustCompile(`[0-9A-F]{8}$`)

// id returns the logical ID that a resource got: the name given here and a hash.
func (tpl template) id(t *testing.T, name string) string {
	t.Helper()
	for id := range tpl["Resources"].(values) {
		if hash.ReplaceAllString(id, "") == name {
			return id
		}
	}
	t.Fatalf("there is no resource %s", name)
	return ""
}

// Package apptest starts functions for the tests of packages that add to them.
package apptest

import (
	"bytes"
	"context"
	"testing"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/app/lambda"
	"github.com/idemsk/idemsk/lambda/msk"
)

// Event is one record of the topic payments, under the key a.
const Event = `{"eventSource":"aws:kafka","records":{"payments-0":[{"topic":"payments","partition":0,"offset":7,` +
	`"timestamp":1767225600000,"timestampType":"CREATE_TIME","value":"e30=","headers":[{"idempotency-key":[97]}]}]}}`

// Function is a function under test, with its output.
type Function struct {
	*lambda.Function
	Stdout, Stderr bytes.Buffer
}

// Start starts a function with the name ledger, unless the variables contain another.
func Start(t testing.TB, env map[string]string, handler msk.HandlerFunc, options ...app.Option) (*Function,
	error) {
	t.Helper()
	var f Function
	build := func(context.Context, *app.Base) (msk.Handler, error) { return handler, nil }
	fn, err := lambda.New(t.Context(), build, Vars(env), &f.Stdout, &f.Stderr, options...)
	f.Function = fn
	return &f, err
}

// MustStart is Start for a function that must start.
func MustStart(t testing.TB, env map[string]string, handler msk.HandlerFunc, options ...app.Option) *Function {
	t.Helper()
	f, err := Start(t, env, handler, options...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Deliver delivers the event, which must succeed.
func (f *Function) Deliver(t testing.TB) {
	t.Helper()
	out, err := f.Invoke(t.Context(), []byte(Event))
	if err != nil {
		t.Fatal(err)
	}
	Equal(t, "answer", string(out), `{"batchItemFailures":[]}`)
}

// Settle delivers the event until it succeeds: the first delivery may fail because the login is refused.
func (f *Function) Settle(t testing.TB) {
	t.Helper()
	var err error
	for range 2 {
		if _, err = f.Invoke(t.Context(), []byte(Event)); err == nil {
			return
		}
	}
	t.Fatal(err)
}

// Returning returns a handler that only returns.
func Returning(result string, err error) msk.HandlerFunc {
	return func(context.Context, msk.Record) ([]byte, error) { return []byte(result), err }
}

// Vars returns Vars that read from a map instead of the environment, with the function name ledger unless the
// map has another.
func Vars(env map[string]string) *app.Vars {
	return app.NewVars(func(name string) (string, bool) {
		s, ok := env[name]
		if !ok && name == "AWS_LAMBDA_FUNCTION_NAME" {
			return "ledger", true
		}
		return s, ok
	})
}

// Equal fails the test if two values differ.
func Equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v; want %v", what, got, want)
	}
}

// Must returns a value, and fails the test on an error.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

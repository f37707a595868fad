package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/test/testkit/marked"
	"github.com/idemsk/idemsk/kafka"
)

// No span has a key: neither that of a batch whose record is in flight elsewhere, nor that of a record whose
// handler returns an error with its key.
func TestKeysAreInNoSpan(t *testing.T) {
	const key = "780511200733"
	f := newFixture(t)
	st := memstore.New(memstore.Config{})
	st.Claim(t.Context(), []store.ClaimRequest{{Key: "ledger#payments#" + key + "-held", Owner: "another",
		Lease: time.Hour, Retention: time.Hour}})
	engine, err := idem.New(st, idem.Config{Observer: f, Wait: -1})
	if err != nil {
		t.Fatal(err)
	}
	held, fails := record(t.Context(), payments, key+"-held"), record(t.Context(), payments, key)
	held.Offset = 1
	f.invokeOn(engine, func(ctx context.Context, _ kafka.Record) ([]byte, error) {
		a, _ := idem.AttemptFrom(ctx)
		return nil, idem.Permanent(errors.New("no account of " + a.Key))
	}, fails, held)
	if n := len(f.spans.Ended()); n != 2 {
		t.Errorf("%d spans; want those of the batch and of the record that ran", n)
	}
	for _, s := range f.spans.Ended() {
		if text := fmt.Sprint(s.Name(), s.Status(), s.Attributes(),
			s.Events()); s.Status().Code != codes.Error || strings.Contains(text, key) {
			t.Errorf("the span: %s; want an error without the key", text)
		}
	}
}

// No failure has a key or a value in a span.
func TestMarksAreInNoSpan(t *testing.T) {
	for _, failing := range marked.Failures() {
		t.Run(failing.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				marked.Function{
					Namespace: "ledger", Store: memstore.New(memstore.Config{}),
					Engine: idem.Config{Observer: f}, Batch: f.Batch, Within: f.Handler,
				}.Deliver(t, failing)
				texts := map[string]string{}
				for _, s := range f.spans.Ended() {
					texts[s.Name()] += fmt.Sprint(s.Status(), s.Attributes(), s.Events())
				}
				marked.Check(t, true, texts)
				if len(texts) == 0 {
					t.Error("no span")
				}
			})
		})
	}
}

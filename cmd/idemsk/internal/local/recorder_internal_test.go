package local

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/console"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
)

func answerOK(context.Context, *esm.Invocation) (esm.Answer, error) { return esm.Answer{}, nil }

// What a recorder keeps is bounded: older invocations, events, keys and lines are dropped, and counted.
func TestRecorderIsBounded(t *testing.T) {
	t.Parallel()
	r := newRecorder()
	s := r.newSlot(nil)
	for range maxInvocations + 3 {
		_, _ = s.invoke(t.Context(), &esm.Invocation{Payload: []byte("{}")}, answerOK)
	}
	if all := r.Invocations(); len(all.Invocations) != maxInvocations || all.Dropped != 3 ||
		all.Invocations[0].Number != maxInvocations+3 {
		t.Errorf("%d invocations, %d dropped", len(all.Invocations), all.Dropped)
	}
	if _, ok := r.Invocation(3); ok {
		t.Error("an invocation that was dropped is found")
	}
	if d, ok := r.Invocation(4); !ok || d.Number != 4 {
		t.Errorf("the oldest invocation is %+v", d)
	}
	large := &esm.Invocation{Payload: make([]byte, 5<<20)}
	for range 20 {
		_, _ = s.invoke(t.Context(), large, func(context.Context, *esm.Invocation) (esm.Answer, error) {
			s.line([]byte(strings.Repeat("x", maxText)))
			s.line([]byte("one line too many"))
			return esm.Answer{Payload: make([]byte, maxText+1)}, nil
		})
	}
	if all := r.Invocations(); r.bytes > maxPayloads || len(all.Invocations) != maxPayloads/(5<<20) {
		t.Errorf("%d invocations with %d bytes", len(all.Invocations), r.bytes)
	}
	d, ok := r.Invocation(maxInvocations + 23)
	if !ok || !d.Cut || len(d.Log) != 1 || len(d.Event) != maxText || len(d.Answer) != maxText {
		t.Errorf("the last invocation: %t, %t, %d lines, %d and %d bytes", ok, d.Cut, len(d.Log),
			len(d.Event), len(d.Answer))
	}
	for i := range maxKeys + 2 {
		k := r.keyOf(fmt.Sprint("key-", i))
		k.status = "STARTED"
		r.locate(fmt.Sprintf("payments-0@%d", i), k)
	}
	if keys := r.Keys(console.Query{}); keys.Forgotten != 2 || keys.Selected != maxKeys ||
		len(keys.Keys) != maxKeysShown {
		t.Errorf("%d keys, %d forgotten, %d shown", keys.Selected, keys.Forgotten, len(keys.Keys))
	}
	if _, ok := r.History("key-1"); ok {
		t.Error("a key that was forgotten has a history")
	}
	k := r.keyOf("key-2")
	for i := range maxEvents + 5 {
		k.add(event{Event: console.Event{Kind: console.KindClaimed, Token: int64(i)}})
	}
	if h, ok := r.History("key-2"); !ok || len(h.Events) != maxEvents || h.Dropped != 5 {
		t.Errorf("%d events, %d dropped", len(h.Events), h.Dropped)
	}
	for range maxRates + 1 {
		r.rate(1)
	}
	if len(r.rates) != maxRates {
		t.Errorf("%d seconds", len(r.rates))
	}
}

// Without a page nothing is recorded.
func TestNoRecorder(t *testing.T) {
	t.Parallel()
	var r *recorder
	s := r.newSlot(nil)
	s.line([]byte("x"))
	if answer, err := s.invoke(t.Context(), &esm.Invocation{}, answerOK); err != nil ||
		answer.FunctionError != "" {
		t.Errorf("%+v, %v", answer, err)
	}
}

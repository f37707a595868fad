package storeserver

import (
	"errors"
	"fmt"
	"testing"

	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/lambda/app"
	"github.com/idemsk/idemsk/lambda/app/internal/apptest"
)

func TestBatchingCanBeTurnedOff(t *testing.T) {
	st := memstore.New(memstore.Config{BatchSize: 25})
	for plain, want := range map[bool]bool{false: true, true: false} {
		base := &app.Base{Config: app.Config{Plain: plain}}
		_, batches := Batching(base, st).(store.Batcher)
		apptest.Equal(t, "it takes batches", batches, want)
		_, transacts := Batching(base, st).(store.Transactor)
		apptest.Equal(t, "it commits effects", transacts, true)
		_, transacts = Batching(base, struct{ store.Store }{st}).(store.Transactor)
		apptest.Equal(t, "one that does not commits effects", transacts, false)
	}
}

func TestWarningWithAnotherErrorIsAnError(t *testing.T) {
	warning, worse := errors.New("warning"), errors.New("worse")
	wrapped := fmt.Errorf("port 1: %w: fix it", warning)
	for _, tc := range []struct {
		found error
		want  bool
	}{
		{warning, true},
		{wrapped, true},
		{errors.Join(wrapped, nil, errors.Join(warning)), true},
		{fmt.Errorf("check: %w", errors.Join(wrapped, wrapped)), true},
		{worse, false},
		{errors.Join(warning, worse), false},
		{fmt.Errorf("check: %w", errors.Join(fmt.Errorf("on: %w", worse), wrapped)), false},
		{fmt.Errorf("%w: %w", warning, worse), false},
	} {
		apptest.Equal(t, tc.found.Error(), NothingBut(warning, tc.found), tc.want)
	}
}

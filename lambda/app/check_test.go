//go:build postgres || redis

package app

import (
	"errors"
	"fmt"
	"testing"

	"github.com/idemsk/idemsk/idem/store"

	"github.com/idemsk/idemsk/idem/memstore"
)

func TestBatchingCanBeTurnedOff(t *testing.T) {
	st := memstore.New(memstore.Config{BatchSize: 25})
	for plain, want := range map[bool]bool{false: true, true: false} {
		base := &Base{Config: Config{Plain: plain}}
		_, batches := base.batching(st).(store.Batcher)
		equal(t, "it takes batches", batches, want)
	}
}

func TestAWarningIsOneOnlyIfNothingElseIsWrong(t *testing.T) {
	warning, worse := errors.New("warning"), errors.New("worse")
	wrapped := fmt.Errorf("port 1: %w: mend it", warning)
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
		equal(t, tc.found.Error(), nothingBut(warning, tc.found), tc.want)
	}
}

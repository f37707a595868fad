package storeserver

import (
	"errors"
	"fmt"
	"testing"

	"github.com/idemsk/idemsk/internal/test/apptest"
)

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

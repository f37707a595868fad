package storeserver

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/idemsk/idemsk/app"
)

// checkTimeout is the maximum time of the check, of the ten seconds that Lambda has for a start.
const checkTimeout = 3 * time.Second

// Verdicts classifies the errors of a store's check that are logged at another level than ERROR.
type Verdicts struct {
	// the store would violate its guarantees silently, so the caller must refuse it; nil for none
	Refuse  error
	Warning error // the store works with restrictions
}

// Check checks the store's server once. It uses the connection that the first record would open. It logs the
// error with the remedy, and returns it. The error may be fixed while the function runs; until then its
// records fail and are retried.
func Check(ctx context.Context, b *app.Base, st interface {
	Check(ctx context.Context) error
}, v Verdicts) (found error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	found = st.Check(ctx)
	switch {
	case found == nil, v.Refuse != nil && errors.Is(found, v.Refuse):
	case NothingBut(v.Warning, found):
		b.Logger.LogAttrs(ctx, slog.LevelWarn, "the store is less than it should be",
			slog.String("error", found.Error()))
	default:
		b.Logger.LogAttrs(ctx, slog.LevelError, "the store is not ready: no record can be handled until it is",
			slog.String("error", found.Error()))
	}
	return found
}

// NothingBut reports whether every error that is joined in err is target.
func NothingBut(target, err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(joined.Unwrap(), func(err error) bool { return !NothingBut(target, err) })
	}
	if below := errors.Unwrap(err); below != nil {
		return NothingBut(target, below)
	}
	return errors.Is(err, target)
}

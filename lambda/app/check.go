//go:build postgres || redis

package app

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// checkTimeout bounds what the check takes of the ten seconds that Lambda has for a start.
const checkTimeout = 3 * time.Second

// verdicts say which findings of a store's check are more, or less, than an error in the log.
type verdicts struct {
	refuse  error // the store would break its promise without a word: it is the caller's to refuse it; nil for none
	warning error // the store works
}

// checkStore looks at the store's server once: it costs the connection that the first record would make. What is wrong, which it
// returns, is logged with what to do, and may be mended while the function runs: until then its records fail, and come again.
func (b *Base) checkStore(ctx context.Context, st interface {
	Check(ctx context.Context) error
}, v verdicts) (found error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	found = st.Check(ctx)
	switch {
	case found == nil, v.refuse != nil && errors.Is(found, v.refuse):
	case nothingBut(v.warning, found):
		b.Logger.LogAttrs(ctx, slog.LevelWarn, "the store is less than it should be", slog.String("error", found.Error()))
	default:
		b.Logger.LogAttrs(ctx, slog.LevelError, "the store is not ready: records fail until it is", slog.String("error", found.Error()))
	}
	return found
}

// nothingBut reports whether every error that is joined in err is target.
func nothingBut(target, err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(joined.Unwrap(), func(err error) bool { return !nothingBut(target, err) })
	}
	if below := errors.Unwrap(err); below != nil {
		return nothingBut(target, below)
	}
	return errors.Is(err, target)
}

// unbatched hides that a store takes many elements in one request.
type unbatched struct{ store.Store }

// batching returns the store as IDEMSK_BATCHING wants it.
func (b *Base) batching(st store.Store) store.Store {
	if b.Config.Plain {
		return unbatched{st}
	}
	return st
}

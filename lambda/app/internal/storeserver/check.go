package storeserver

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/lambda/app"
)

// checkTimeout bounds what the check takes of the ten seconds that Lambda has for a start.
const checkTimeout = 3 * time.Second

// Verdicts say which findings of a store's check are more, or less, than an error in the log.
type Verdicts struct {
	Refuse  error // the store would break its promise without a word: it is the caller's to refuse it; nil for none
	Warning error // the store works
}

// Check looks at the store's server once: it costs the connection that the first record would make. What is wrong, which it
// returns, is logged with what to do, and may be mended while the function runs: until then its records fail, and come again.
func Check(ctx context.Context, b *app.Base, st interface {
	Check(ctx context.Context) error
}, v Verdicts) (found error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	found = st.Check(ctx)
	switch {
	case found == nil, v.Refuse != nil && errors.Is(found, v.Refuse):
	case NothingBut(v.Warning, found):
		b.Logger.LogAttrs(ctx, slog.LevelWarn, "the store is less than it should be", slog.String("error", found.Error()))
	default:
		b.Logger.LogAttrs(ctx, slog.LevelError, "the store is not ready: records fail until it is", slog.String("error", found.Error()))
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

// unbatched hides that a store takes many elements in one request.
type unbatched struct{ store.Store }

// unbatchedTransactor is unbatched for a store that commits effects.
type unbatchedTransactor struct {
	store.Store
	store.Transactor
}

// Batching returns the store as IDEMSK_BATCHING wants it.
func Batching(b *app.Base, st store.Store) store.Store {
	tx, transacts := st.(store.Transactor)
	switch {
	case b.Config.Plain && transacts:
		return unbatchedTransactor{st, tx}
	case b.Config.Plain:
		return unbatched{st}
	}
	return st
}

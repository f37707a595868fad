package idem_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// sealedBadly is a store whose effects can't be sealed.
type sealedBadly struct{ *spy }

func (sealedBadly) NewEffect() store.Effect { return badSeal{} }

type badSeal struct{}

func (badSeal) Seal() (enlisted bool, err error) { return true, errBoom }

func (badSeal) Discard() {}

func TestEffectThatCantBeSealedIsTheHandlersError(t *testing.T) {
	onSpy(t, func(t *testing.T, s *spy) {
		h := &handler{handle: func(ctx context.Context, _ int) ([]byte, error) {
			_, ok := store.EffectFrom(ctx)
			equal(t, "an effect", ok, true)
			return nil, nil
		}}
		out := newEngine(t, sealedBadly{s}, idem.Config{}).Do(t.Context(), taskOf(h))
		wantKind(t, out, idem.Retry)
		wantErr(t, out.Err, errBoom)
	})
}

// counted is a store that counts what becomes of its effects.
type counted struct {
	*spy
	made, discarded, settled *int
	enlists                  bool
	seal                     error
}

func (c counted) NewEffect() store.Effect {
	*c.made++
	return countedEffect(c)
}

func (c counted) Settle(ctx context.Context, ss []store.Settlement) []error {
	plain := slices.Clone(ss)
	for i := range plain {
		if plain[i].Effect != nil {
			*c.settled++
			plain[i].Effect = nil
		}
	}
	return c.spy.Settle(ctx, plain)
}

type countedEffect counted

func (e countedEffect) Seal() (enlisted bool, err error) { return e.enlists, e.seal }

func (e countedEffect) Discard() { *e.discarded++ }

// An effect holds what a store can't do without, such as a connection.
func TestAnEffectIsSettledOrDiscarded(t *testing.T) {
	asks := func(err error) func(context.Context) ([]byte, error) {
		return func(ctx context.Context) ([]byte, error) {
			_, _ = store.EffectFrom(ctx)
			return nil, err
		}
	}
	for name, tc := range map[string]struct {
		handle           func(context.Context) ([]byte, error)
		nothing          bool
		seal             error
		settled, discard int
	}{
		"success":                  {handle: asks(nil), settled: 1},
		"success without a result": {handle: asks(idem.ResultUnavailable(errBoom)), settled: 1},
		"an error":                 {handle: asks(errBoom), discard: 1},
		"a permanent error":        {handle: asks(idem.Permanent(errBoom)), discard: 1},
		"an error of a dependency": {handle: asks(idem.Unavailable(errBoom)), discard: 1},
		"nothing enlisted":         {handle: asks(nil), nothing: true, discard: 1},
		"what can't be sealed":     {handle: asks(nil), seal: errBoom, discard: 1},
		"what can't be sealed, no result": {handle: asks(idem.ResultUnavailable(errBoom)), seal: errBoom,
			discard: 1},
		"an error, and what can't be": {handle: asks(errBoom), seal: errBoom, discard: 1},
		"a panic": {handle: func(ctx context.Context) ([]byte, error) {
			_,
				_ = asks(nil)(ctx)
			panic("boom")
		}, discard: 1},
		"the end of the handler's goroutine": {handle: func(ctx context.Context) ([]byte, error) {
			_,
				_ = asks(nil)(ctx)
			runtime.Goexit()
			return nil, nil
		}, discard: 1},
		"an error after the claim was lost": {handle: func(ctx context.Context) ([]byte, error) {
			_, err := asks(nil)(ctx)
			<-ctx.Done()
			return nil, errors.Join(err, context.Cause(ctx))
		}, discard: 1},
		"a handler that asks for none": {handle: func(context.Context) ([]byte, error) { return nil, nil }},
	} {
		t.Run(name, func(t *testing.T) {
			onSpy(t, func(t *testing.T, s *spy) {
				if name == "an error after the claim was lost" {
					s.onSettle = failing(store.OpExtend)
				}
				made, discarded, settled := 0, 0, 0
				e := newEngine(t, counted{s, &made, &discarded, &settled, !tc.nothing, tc.seal},
					idem.Config{})
				h := &handler{handle: func(ctx context.Context, _ int) ([]byte,
					error) {
					return tc.handle(ctx)
				}}
				var wg sync.WaitGroup
				wg.Go(func() { e.Do(t.Context(), taskOf(h)) })
				wg.Wait()
				equal(t, "settled", settled, tc.settled)
				equal(t, "discarded", discarded, tc.discard)
				equal(t, "made", made, tc.settled+tc.discard)
			})
		})
	}
}

// A goroutine that outlives its handler gets no effect, because no one would end it.
func TestNoEffectIsMadeAfterTheHandler(t *testing.T) {
	onSpy(t, func(t *testing.T, s *spy) {
		var kept context.Context
		h := &handler{handle: func(ctx context.Context, _ int) ([]byte, error) {
			kept = ctx //nolint:fatcontext // that is the point
			return nil, nil
		}}
		wantKind(t, newEngine(t, s, idem.Config{}).Do(t.Context(), taskOf(h)), idem.Executed)
		if _, ok := store.EffectFrom(kept); ok {
			t.Error("there is an effect")
		}
	})
}

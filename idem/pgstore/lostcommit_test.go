//go:build servers

package pgstore_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/test/faultproxy"
)

// A handler whose COMMIT has no answer: with at most once it is not called again, and its record is a dead letter
// unless the COMMIT was executed. Otherwise it is called again. A COMMIT that arrives after that has no effect.
func TestHandlerWhoseCommitHasNoAnswer(t *testing.T) {
	lost := func(_ *bank, _ context.Context, _ pgx.Tx, proxy *faultproxy.Proxy) { proxy.Existing(faultproxy.Silent) }
	answerLost := func(b *bank, ctx context.Context, tx pgx.Tx, proxy *faultproxy.Proxy) {
		b.prepareCommit(ctx, tx)
		proxy.NextReply(faultproxy.Reset)
	}
	late := func(b *bank, ctx context.Context, tx pgx.Tx, proxy *faultproxy.Proxy) {
		b.prepareCommit(ctx, tx)
		proxy.DelayNextRequest(4 * shortLimit)
	}
	broken := func(b *bank, _ context.Context, tx pgx.Tx, _ *faultproxy.Proxy) {
		ask[bool](b, b.pool, `SELECT pg_terminate_backend($1, 5000)`, tx.Conn().PgConn().PID())
	}
	for _, tc := range []struct {
		name        string
		fault       func(b *bank, ctx context.Context, tx pgx.Tx, proxy *faultproxy.Proxy)
		most, least idem.Kind // the outcome at most once, and at least once
	}{
		{"the COMMIT is lost", lost, idem.DeadLettered, idem.Retry},
		{"the COMMIT is late", late, idem.DeadLettered, idem.Retry},
		{"the connection broke", broken, idem.DeadLettered, idem.Retry},
		{"the answer is lost", answerLost, idem.Executed, idem.Executed},
	} {
		for _, atMostOnce := range []bool{true, false} {
			name, want := tc.name+", at least once", tc.least
			if atMostOnce {
				name, want = tc.name+", at most once", tc.most
			}
			t.Run(name, func(t *testing.T) {
				b, proxy := newBankBehind(t, idem.Config{AtMostOnce: atMostOnce, RetryDelay: -1}, time.Second)
				b.pool = newPool(t, server.URL())
				calls, backend := 0, uint32(0)
				pays := b.task("k", func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
					err := b.write(ctx, tx, "once")
					if calls++; calls == 1 {
						backend = tx.Conn().PgConn().PID()
						tc.fault(b, ctx, tx, proxy)
					}
					return nil, err
				})
				faultproxy.Within(t, 2*soon, "two deliveries", func(ctx context.Context) {
					out := b.engine.Do(ctx, pays)
					b.want(out, want)
					if (want == idem.DeadLettered) != errors.Is(out.Err, idem.ErrOutcomeUnknown) {
						t.Error(out.Err)
					}
					b.engine.Do(ctx, pays)
				})
				b.waitForEnd(backend)
				effects, status := int64(1), store.StatusCompleted
				if want == idem.DeadLettered {
					effects, status = 0, store.StatusFailed
				}
				if n, entry := b.effects(), b.get("k"); n != effects || entry.Status != status {
					t.Errorf("%d effects, %+v; want %d, %s", n, entry, effects, status)
				}
				if atMostOnce && calls != 1 {
					t.Errorf("%d calls", calls)
				}
			})
		}
	}
}

// waitForEnd waits until a process of the server has ended.
func (b *bank) waitForEnd(backend uint32) {
	b.Helper()
	for limit := time.Now().Add(time.Minute); ask[int](b, b.pool, `SELECT count(*) FROM pg_stat_activity WHERE pid = $1`,
		backend) > 0; runtime.Gosched() {
		if time.Now().After(limit) {
			b.Fatal("the process has not ended")
		}
	}
}

// interrupter ends a context when the entries of keys are read.
type interrupter struct{ end func() }

// TraceQueryStart implements pgx.QueryTracer.
func (i *interrupter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, "FROM unnest($1::text[]) AS r (key) JOIN") && i.end != nil {
		i.end()
	}
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*interrupter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// What was not read is not known: no completion is fenced by an entry that the store could not read.
func TestEntryThatIsNotRead(t *testing.T) {
	reading := new(interrupter)
	b := newBank(t, newPool(t, server.URL(), func(c *pgxpool.Config) { c.ConnConfig.Tracer = reading }), idem.Config{})
	claimed := func() store.Entry { return claimOne(t, b.store, request(unique("k"), 1), store.Claimed).Entry }
	enlisted := func(n int) []store.Settlement {
		return b.enlisting(n, func(ctx context.Context, _ int) error { _, err := b.enlists("x")(ctx); return err })
	}
	ended := func() []store.Settlement {
		set, in := b.inTransaction(claimed())
		tx, err := pgstore.TxFrom(in)
		if err != nil {
			t.Fatal(err)
		}
		ask[bool](t, b.pool, `SELECT pg_terminate_backend($1, 5000)`, tx.Conn().PgConn().PID())
		if errs := b.store.Settle(t.Context(), []store.Settlement{set}); errs == nil {
			t.Fatal("it was committed")
		}
		return []store.Settlement{set}
	}
	for name, tc := range map[string]struct {
		prepare func() []store.Settlement
		held    bool // the owner still holds the key
	}{
		"without an effect": {func() []store.Settlement { return []store.Settlement{settlement(claimed(), store.OpComplete)} }, false},
		"a release":         {func() []store.Settlement { return []store.Settlement{settlement(claimed(), store.OpRelease)} }, false},
		"enlisted":          {func() []store.Settlement { return enlisted(1) }, false},
		"a group":           {func() []store.Settlement { return enlisted(10) }, false},
		"a transaction": {func() []store.Settlement {
			set, _ := b.inTransaction(claimed())
			return []store.Settlement{set}
		}, false},
		"a transaction that has ended":                      {ended, false},
		"a transaction that has ended, and the key is held": {ended, true},
	} {
		t.Run(name, func(t *testing.T) {
			ss := tc.prepare()
			if !tc.held {
				execute(t, b.pool, `UPDATE `+b.table+` SET version = version + 1, owner = 'another' WHERE status = 'STARTED'`)
			}
			ctx, cancel := context.WithCancel(t.Context())
			reading.end = cancel
			errs := b.store.Settle(ctx, ss)
			reading.end = nil
			for i, err := range errs {
				if err == nil || errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrRejected) {
					t.Errorf("%d: %v; want an error of the reading", i, err)
				}
			}
			for i, err := range b.store.Settle(t.Context(), ss) {
				fenced, ok := errors.AsType[*store.FencedError](err)
				if ok == tc.held || ok && fenced.Current.Owner != "another" || tc.held && !errors.Is(err, store.ErrRejected) {
					t.Errorf("%d, once more: %v", i, err)
				}
			}
			if ctx.Err() == nil || len(errs) == 0 {
				t.Errorf("the entries were not read: %v", errs)
			}
		})
	}
}

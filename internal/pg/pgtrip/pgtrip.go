// Package pgtrip makes round trips to PostgreSQL over the connections of a pool, and bounds the time without
// an answer in each.
package pgtrip

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/internal/network/silence"
)

// Exchange sends the requests of a round trip and reads the answers, in the context of w. It calls w.Heard
// for each answer. If no answer comes within the limit, the exchange ends with a *silence.Error.
type Exchange func(w *silence.Watch, conn *pgx.Conn) error

// Pool makes round trips over the connections of a pool. It is safe for concurrent use.
type Pool struct {
	*pgxpool.Pool
	limit time.Duration // of Acquire

	renewing sync.Mutex
	renewed  time.Time
}

// New returns a Pool. limit bounds the wait for the answer to a ping in Acquire. The caller closes pool.
func New(pool *pgxpool.Pool, limit time.Duration) *Pool { return &Pool{Pool: pool, limit: limit} }

// RoundTrip makes an exchange on a connection of the pool. limit bounds the time without an answer.
func (p *Pool) RoundTrip(ctx context.Context, limit time.Duration, f Exchange) error {
	conn, err := p.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return p.Exchange(ctx, limit, conn, f)
}

// unpinged is the key that marks the context of Acquire.
type unpinged struct{}

// Unpinged reports whether ctx is that of a Pool, whose connections need no ping. A Pool detects broken
// connections by its exchanges and replaces all of them at once. Pinging them one after the other could take
// longer than a lease.
func Unpinged(ctx context.Context) bool { return ctx.Value(unpinged{}) != nil }

// Acquire returns a connection of the pool. If the pool pings idle connections and none answers within the
// limit, Acquire replaces all connections. A new connection may take the pool's connect_timeout.
func (p *Pool) Acquire(ctx context.Context) (*pgxpool.Conn, error) {
	begun := time.Now()
	ctx = context.WithValue(ctx, unpinged{}, true)
	within, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	conn, err := p.Pool.Acquire(within)
	if err == nil || within.Err() == nil || ctx.Err() != nil {
		return conn, err
	}
	if p.Stat().IdleConns() > 0 { // otherwise all are in use, or a new one is being opened
		p.Renew(begun)
	}
	return p.Pool.Acquire(ctx)
}

// Exchange makes an exchange on an acquired connection, like On. A connection that was closed leaves the pool
// at once. Otherwise pgx would take up to 15 s to close a connection that does not answer, and the pool would
// count it for that time.
func (p *Pool) Exchange(ctx context.Context, limit time.Duration, conn *pgxpool.Conn, f Exchange) error {
	err := p.On(ctx, limit, conn.Conn(), f)
	if conn.Conn().IsClosed() {
		conn.Hijack()
	}
	return err
}

// On makes an exchange on a connection. limit bounds the time without an answer; after it the connection is
// closed. A fault that breaks one connection usually affects all of them, so On makes the pool replace its
// connections.
func (p *Pool) On(ctx context.Context, limit time.Duration, conn *pgx.Conn, f Exchange) error {
	begun := time.Now()
	w := silence.Start(ctx, limit)
	defer w.Stop()
	err := w.Err(f(w, conn))
	if err != nil && conn.IsClosed() && !errors.Is(err, context.Canceled) && !IsUnsent(err) {
		// a cancellation is no fault of the connection, nor is an argument
		_ = conn.PgConn().Conn().Close()
		p.Renew(begun)
	}
	return err
}

// Renew makes the pool close its connections: the idle ones now, the others when they are released. It does
// so once for all exchanges that began before.
func (p *Pool) Renew(begun time.Time) {
	p.renewing.Lock()
	defer p.renewing.Unlock()
	if begun.After(p.renewed) {
		p.Reset()
		p.renewed = time.Now()
	}
}

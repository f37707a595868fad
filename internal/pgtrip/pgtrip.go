// Package pgtrip makes round trips to PostgreSQL over the connections of a pool, and bounds them by how long the server says nothing.
package pgtrip

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/internal/silence"
)

// Exchange is what is said and heard in a round trip, in the context of w. It calls w.Heard whenever the server has answered
// something. Where the server was silent for too long it is given up, with a *silence.Error.
type Exchange func(w *silence.Watch, conn *pgx.Conn) error

// Pool makes round trips over the connections of a pool. It is safe for concurrent use.
type Pool struct {
	*pgxpool.Pool
	limit time.Duration // of Acquire

	renewing sync.Mutex
	renewed  time.Time
}

// New returns a Pool. An idle connection of pool may say nothing for limit when it is acquired. The pool stays the caller's.
func New(pool *pgxpool.Pool, limit time.Duration) *Pool { return &Pool{Pool: pool, limit: limit} }

// RoundTrip has an exchange on a connection of the pool, and gives it up when nothing was heard for limit.
func (p *Pool) RoundTrip(ctx context.Context, limit time.Duration, f Exchange) error {
	conn, err := p.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return p.Exchange(ctx, limit, conn, f)
}

// unpinged marks the context of Acquire.
type unpinged struct{}

// Unpinged reports whether a connection is wanted by a Pool, which finds out by itself which ones are dead, all at once: to ping one
// after the other could take longer than a lease.
func Unpinged(ctx context.Context) bool { return ctx.Value(unpinged{}) != nil }

// Acquire returns a connection of the pool. Where the pool pings idle connections nevertheless, and they do not answer within the
// limit, they are given up. To make a new one may take as long as the pool's connect_timeout.
func (p *Pool) Acquire(ctx context.Context) (*pgxpool.Conn, error) {
	begun := time.Now()
	ctx = context.WithValue(ctx, unpinged{}, true)
	within, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	conn, err := p.Pool.Acquire(within)
	if err == nil || within.Err() == nil || ctx.Err() != nil {
		return conn, err
	}
	if p.Stat().IdleConns() > 0 { // otherwise all are at work, or one is being made
		p.Renew(begun)
	}
	return p.Pool.Acquire(ctx)
}

// Exchange has an exchange on a connection that was acquired. It is On for such a connection: one that ends leaves the pool at once, as
// pgx takes up to 15 s to close one that is silent, and the pool would count it as one of its connections for so long.
func (p *Pool) Exchange(ctx context.Context, limit time.Duration, conn *pgxpool.Conn, f Exchange) error {
	err := p.On(ctx, limit, conn.Conn(), f)
	if conn.Conn().IsClosed() {
		conn.Hijack()
	}
	return err
}

// On has an exchange on a connection, and gives it up when nothing was heard for limit. The connection is closed then. What breaks or
// silences one connection mostly does so to all: so the pool makes new ones.
func (p *Pool) On(ctx context.Context, limit time.Duration, conn *pgx.Conn, f Exchange) error {
	begun := time.Now()
	w := silence.Start(ctx, limit)
	defer w.Stop()
	err := w.Err(f(w, conn))
	if err != nil && conn.IsClosed() && !errors.Is(err, context.Canceled) { // which says nothing about the connection
		_ = conn.PgConn().Conn().Close()
		p.Renew(begun)
	}
	return err
}

// Renew has the pool close the connections that it has: the idle ones now, those at work when they are given back. Once is enough for
// all that had begun before.
func (p *Pool) Renew(begun time.Time) {
	p.renewing.Lock()
	defer p.renewing.Unlock()
	if begun.After(p.renewed) {
		p.Reset()
		p.renewed = time.Now()
	}
}

package pgstore

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/internal/silence"
)

// DefaultRoundTripTimeout is for how long the server may say nothing in a round trip unless Config says otherwise.
const DefaultRoundTripTimeout = 2 * time.Second

// adminTimeout is the same for what reads or deletes many rows: a page of List looks at any number of them to find one.
const adminTimeout = 5 * time.Minute

// exchange is what is said and heard in a round trip. It calls w.Heard whenever the server has answered something.
type exchange func(w *silence.Watch, conn *pgx.Conn) error

// roundTrip has an exchange with the server on a connection of the pool.
func (s *Store) roundTrip(ctx context.Context, limit time.Duration, f exchange) error {
	conn, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return s.exchange(ctx, limit, conn, f)
}

// acquire returns a connection of the pool. In a pool that is not NewPool's, idle connections that are pinged and do not answer within
// the limit of a round trip are given up. A new one may take as long as the pool's connect_timeout.
func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	begun := time.Now()
	ctx = context.WithValue(ctx, unpinged{}, true)
	within, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	conn, err := s.pool.Acquire(within)
	if err == nil || within.Err() == nil || ctx.Err() != nil {
		return conn, err
	}
	if s.pool.Stat().IdleConns() > 0 { // otherwise all are at work, or one is being made
		s.renew(begun)
	}
	return s.pool.Acquire(ctx)
}

// exchange has an exchange, and gives it up when nothing was heard for limit. A connection that ends thereby leaves the pool at
// once: pgx takes up to 15 s to close one that is silent, and the pool would count it as one of its connections for so long. What
// breaks or silences one connection mostly does so to all: so the pool makes new ones.
func (s *Store) exchange(ctx context.Context, limit time.Duration, conn *pgxpool.Conn, f exchange) error {
	begun := time.Now()
	w := silence.Start(ctx, limit)
	defer w.Stop()
	err := w.Err(f(w, conn.Conn()))
	if err != nil && conn.Conn().IsClosed() {
		ended := conn.Hijack()
		if !errors.Is(err, context.Canceled) { // which says nothing about the connection
			_ = ended.PgConn().Conn().Close()
			s.renew(begun)
		}
	}
	return err
}

// renew has the pool close the connections that it has: the idle ones now, those at work when they are given back. Once is enough
// for all exchanges that had begun before.
func (s *Store) renew(begun time.Time) {
	s.renewing.Lock()
	defer s.renewing.Unlock()
	if begun.After(s.renewed) {
		s.pool.Reset()
		s.renewed = time.Now()
	}
}

//go:build rest

package outbox_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/internal/test/testbed"
)

// killRelays runs relays one after another and kills each at a random moment, until over is closed. It
// returns how many were killed, and how many of them with work left.
func killRelays(t *testing.T, random *rand.Rand, pool *pgxpool.Pool, table string,
	over <-chan struct{}) (killed, atWork int) {
	t.Helper()
	for {
		p := servers.StartRelay(t, table)
		select {
		case <-over:
			p.Kill()
			return killed, atWork
		case <-time.After(time.Duration(random.Int64N(int64(300 * time.Millisecond)))):
		}
		p.Kill()
		killed++
		if pending(t, pool, table) > 0 {
			atWork++
		}
	}
}

// waitUntilPublished waits until nothing is pending.
func waitUntilPublished(t *testing.T, pool *pgxpool.Pool, table string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for pending(t, pool, table) > 0 {
		select {
		case <-look.C:
		case <-ctx.Done():
			t.Fatalf("%d events are still pending after %v", pending(t, pool, table), patience)
		}
	}
}

// forget makes the last events pending again, as a relay that dies after sending them does: they are sent
// again after all others.
func forget(t *testing.T, pool *pgxpool.Pool, table string) {
	t.Helper()
	tag, err := pool.Exec(t.Context(), `UPDATE `+table+
		` SET published_at = NULL WHERE seq > (SELECT max(seq) FROM `+table+`) - $1`, testbed.SmallBatch)
	if err != nil || tag.RowsAffected() == 0 {
		t.Fatalf("%v, %v", tag, err)
	}
}

func pending(t *testing.T, pool *pgxpool.Pool, table string) int {
	t.Helper()
	return count(t, pool, `SELECT count(*) FROM `+table+` WHERE published_at IS NULL AND parked_at IS NULL`)
}

func count(t *testing.T, pool *pgxpool.Pool, sql string) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

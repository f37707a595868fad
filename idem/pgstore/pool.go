package pgstore

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/pgtrip"
)

const (
	connectTimeout = 5 * time.Second // of one attempt to connect, unless the URL has a connect_timeout
	pingTimeout    = time.Second
	pingedAfter    = time.Second // for which a connection has been idle
)

// NewPool returns a pool of connections to the server that url names (postgres://user:password@host:port/database?…, or a
// keyword/value string), with timeouts that fit the time a function has. It does not connect: see Check. It returns
// idem.ErrInvalidConfig if url can't be read. The caller closes the pool.
//
// Any other *pgxpool.Pool will do for a Store, if it has a connect_timeout: pgx's own default is none.
func NewPool(url string, options ...func(*pgxpool.Config)) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("pgstore: %w: IDEMSK_STORE_URL: want postgres://user:password@host:port/database: %w", idem.ErrInvalidConfig, err)
	}
	cfg.ConnConfig.ConnectTimeout = cmp.Or(cfg.ConnConfig.ConnectTimeout, connectTimeout)
	cfg.PingTimeout = pingTimeout
	cfg.ShouldPing = func(ctx context.Context, conn pgxpool.ShouldPingParams) bool {
		return conn.IdleDuration > pingedAfter && !pgtrip.Unpinged(ctx)
	}
	if params := cfg.ConnConfig.RuntimeParams; params["application_name"] == "" {
		params["application_name"] = "idemsk"
	}
	for _, o := range options {
		o(cfg)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg) // which it does not keep
	if err != nil {
		return nil, fmt.Errorf("pgstore: %w: %w", idem.ErrInvalidConfig, err)
	}
	return pool, nil
}

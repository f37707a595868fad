package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/pg/pgtrip"
	"github.com/idemsk/idemsk/internal/text/redact"
)

const (
	connectTimeout = 5 * time.Second // the default of the URL's connect_timeout, for one attempt
	pingTimeout    = time.Second
	pingedAfter    = time.Second // the idle time after which a connection is pinged
)

// NewPool returns a pool of connections to the server that url names
// (postgres://user:password@host:port/database?…, or a keyword/value string). Its timeouts are short enough
// for a Lambda function. It does not connect: see Store.Check. It returns idem.ErrInvalidConfig if url is
// invalid. The caller closes the pool.
//
// A Store accepts any other *pgxpool.Pool. Set a connect_timeout, because pgx has none by default.
func NewPool(url string, options ...func(*pgxpool.Config)) (*pgxpool.Pool, error) {
	cfg, err := parse(url)
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
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg) // the pool does not keep the context
	if err != nil {
		return nil, fmt.Errorf("pgstore: %w: %w", idem.ErrInvalidConfig, err)
	}
	return pool, nil
}

// parse parses a URL, or a keyword/value string. Its error quotes nothing of a password.
func parse(url string) (*pgxpool.Config, error) {
	if strings.Contains(url, "://") {
		if _, err := redact.ParseURL(url); err != nil {
			return nil, err
		}
	}
	cfg, err := pgxpool.ParseConfig(url)
	var wrong *pgconn.ParseConfigError
	if !errors.As(err, &wrong) {
		return cfg, err
	}
	wrong.ConnString = "…" // it has the password, of which the reason in brackets may have a part
	reason, inBrackets, _ := strings.Cut(wrong.Error(), " (")
	if strings.HasSuffix(reason, "TLS") { // the mode, or a file
		reason += " (" + inBrackets
	}
	return nil, errors.New(reason)
}

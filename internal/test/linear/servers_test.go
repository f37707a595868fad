//go:build rest

package linear_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/redisstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/subprocess/serverproc"
	"github.com/idemsk/idemsk/internal/test/faultproxy"
	"github.com/idemsk/idemsk/internal/test/linear"
	"github.com/idemsk/idemsk/internal/test/pgserver"
	"github.com/idemsk/idemsk/internal/test/redisserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

func TestPostgreSQL(t *testing.T) {
	server := testkit.Run(t, pgserver.Start, pgserver.Config{})
	rounds := 0
	linearizable(t, 30, func(t *testing.T) (cfg linear.Config) {
		t.Helper()
		rounds++
		table := fmt.Sprint("t", rounds)
		direct := postgres(t, server.URL(), nil, table)
		if _, err := pgstore.Migrate(t.Context(), direct.pool, table); err != nil {
			t.Fatal(err)
		}
		if _, err := direct.pool.Exec(t.Context(), `CREATE TABLE `+table+`_effects (key text)`); err != nil {
			t.Fatal(err)
		}
		cfg.Sweep = func(ctx context.Context) error {
			_, err := direct.Prune(ctx, 1000)
			return err
		}
		for range clients {
			n, url := newNetwork(t, server.URL(), patience)
			s := postgres(t, url, n, table)
			c := n.client(s.Store)
			c.Effects = effectsInPostgreSQL(s, table+"_effects", rounds%2 == 0)
			cfg.Clients = append(cfg.Clients, c)
		}
		return cfg
	})
}

// effectsInPostgreSQL returns counters that are the numbers of rows in a table. Their rows are inserted by the
// handler's transaction, or enlisted.
func effectsInPostgreSQL(s pgStore, table string, enlist bool) *linear.Effects {
	return &linear.Effects{
		Transactor: s,
		Count: func(ctx context.Context, e store.Effect, key string) error {
			ctx, cancel := context.WithTimeout(
				context.WithValue(ctx, store.EffectKey{}, func() store.Effect { return e }), patience)
			defer cancel()
			insert := `INSERT INTO ` + table + ` VALUES ($1)`
			if enlist {
				return pgstore.Enlist(ctx, insert, key)
			}
			tx, err := pgstore.TxFrom(ctx)
			if err == nil {
				_, err = tx.Exec(ctx, insert, key)
			}
			return err
		},
		Read: func(ctx context.Context, key string) (n int, err error) {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			err = s.pool.QueryRow(ctx, `SELECT count(*) FROM `+table+` WHERE key = $1`, key).Scan(&n)
			return n, err
		},
	}
}

type pgStore struct {
	*pgstore.Store
	pool *pgxpool.Pool
}

// postgres returns a store in PostgreSQL, whose connections go through a network, or through none.
func postgres(t *testing.T, url string, n *network, table string) pgStore {
	t.Helper()
	pool, err := pgstore.NewPool(url, func(c *pgxpool.Config) {
		c.MaxConns = 3
		if n != nil {
			// a busy machine takes long for a login
			c.ConnConfig.DialFunc, c.ConnConfig.ConnectTimeout = n.dial, 4*patience
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if n != nil {
		// otherwise pgx takes 15 s to close a connection that does not answer
		t.Cleanup(func() { n.proxy.Existing(faultproxy.Reset) })
	}
	s, err := pgstore.New(pool, pgstore.Config{Table: table, MaxClockSkew: skew, RoundTripTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	return pgStore{s, pool}
}

func TestRedis(t *testing.T)  { onRedis(t, redisserver.Redis, 30) }
func TestValkey(t *testing.T) { onRedis(t, redisserver.Valkey, 12) }

func onRedis(t *testing.T, kind redisserver.Kind, share int) {
	t.Helper()
	server := testkit.Run(t, redisserver.Start, redisserver.Config{Kind: kind})
	rounds := 0
	linearizable(t, share, func(t *testing.T) (cfg linear.Config) {
		t.Helper()
		rounds++
		for range clients {
			n, url := newNetwork(t, server.URL(), patience)
			client, err := redisstore.NewClient(url, func(o *redis.UniversalOptions) {
				o.Dialer, o.DialTimeout, o.ReadTimeout, o.WriteTimeout = n.dial, patience, patience, patience
			})
			if err != nil {
				t.Fatal(err)
			}
			testkit.CloseAtEnd(t, client)
			s, err := redisstore.New(client,
				redisstore.Config{Prefix: fmt.Sprint("r", rounds), MaxClockSkew: skew})
			if err != nil {
				t.Fatal(err)
			}
			cfg.Clients = append(cfg.Clients, n.client(s))
		}
		return cfg
	})
}

func TestDynamoDBLocal(t *testing.T) {
	url := testkit.Run(t, serverproc.StartScript, serverproc.DynamoDBLocal).Addr()
	linearizable(t, 3, func(t *testing.T) linear.Config { return onDynamoDB(t, url, longPatience) })
}

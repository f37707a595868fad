package cli

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/idem/pgstore"
)

// postgresFlags are the flags of verbs that manage a table in PostgreSQL.
type postgresFlags struct{ url, table string }

func (p *postgresFlags) declareStoreURL(fs *flag.FlagSet) {
	fs.StringVar(&p.url, "store-url", "", "the `URL` of the database, postgres://user:password@host:port/name\n"+
		"(else IDEMSK_STORE_URL, which keeps it out of process lists)")
}

func (p *postgresFlags) declare(fs *flag.FlagSet) {
	p.declareStoreURL(fs)
	declareTable(fs, &p.table, pgstore.DefaultTable, "the `TABLE` of idempotency keys")
}

func (p *postgresFlags) open() (*pgxpool.Pool, error) {
	url := cmp.Or(p.url, os.Getenv("IDEMSK_STORE_URL"))
	if url == "" {
		return nil, usagef("the database is missing: set IDEMSK_STORE_URL, or give --store-url")
	}
	pool, err := pgstore.NewPool(url)
	if err != nil {
		return nil, &usageError{err}
	}
	return pool, nil
}

func migrateVerb() verb {
	return verb{
		name: "migrate", short: "creates or updates the table of keys in PostgreSQL",
		about: `
Applies the missing migrations in one transaction. No other command or function changes a schema. The role needs CREATE on the
schema, and must own a table that already exists.`,
		examples: []string{
			"IDEMSK_STORE_URL=postgres://owner@db/payments idemsk migrate",
			"idemsk migrate --table idempotency.keys     # the schema must exist: CREATE SCHEMA idempotency",
		},
		flags: func(fs *flag.FlagSet) action {
			var m migrate
			m.declare(fs)
			return m.run
		},
	}
}

// noSuchSchema is PostgreSQL's error code invalid_schema_name.
const noSuchSchema = "3F000"

type migrate struct{ postgresFlags }

func (m *migrate) run(ctx context.Context, s Streams, args []string) error {
	if len(args) > 0 {
		return usagef("unexpected argument %q", args[0])
	}
	pool, err := m.open()
	if err != nil {
		return err
	}
	defer pool.Close()
	applied, err := pgstore.Migrate(ctx, pool, m.table)
	if refused := new(pgconn.PgError); errors.As(err, &refused) && refused.Code == noSuchSchema {
		return fmt.Errorf("the schema of the table %s does not exist: run CREATE SCHEMA first, or name a table in another schema: %w", m.table, refused)
	}
	if err != nil {
		return err
	}
	for _, name := range applied {
		if _, err := fmt.Fprintf(s.Out, "applied %s\n", name); err != nil {
			return err
		}
	}
	s.sayf("idemsk migrate: %s applied to %s\n", term.Plural(len(applied), "migration", "migrations"), term.Escape(m.table))
	return nil
}

func pruneVerb() verb {
	return verb{
		name: "prune", short: "deletes keys in PostgreSQL whose retention is over",
		about: `
Deletes keys whose retention is over, in short transactions that lock only the rows they delete. Run it on a schedule, or
keep it running with --every. Several instances may run at once. DynamoDB (TTL) and Redis delete such keys themselves.`,
		examples: []string{
			"IDEMSK_STORE_URL=postgres://idemsk@db/payments idemsk prune", "idemsk prune --batch 500",
			"idemsk prune --every 1h                     # until it is interrupted",
		},
		flags: func(fs *flag.FlagSet) action {
			var p prune
			p.declare(fs)
			fs.IntVar(&p.batch, "batch", defaultBatch, "delete `N` keys in one transaction")
			fs.DurationVar(&p.every, "every", 0, "repeat until interrupted, with this `TIME` between runs")
			return p.run
		},
	}
}

const defaultBatch = 1000

type prune struct {
	postgresFlags
	batch int
	every time.Duration
}

func (p *prune) run(ctx context.Context, s Streams, args []string) error {
	switch {
	case len(args) > 0:
		return usagef("unexpected argument %q", args[0])
	case p.batch < 1:
		return usagef("--batch is %d: want 1 or more", p.batch)
	case p.every < 0:
		return usagef("--every is %s: want a duration above 0", p.every)
	}
	pool, err := p.open()
	if err != nil {
		return err
	}
	defer pool.Close()
	store, err := pgstore.New(pool, pgstore.Config{Table: p.table})
	if err != nil {
		return &usageError{err}
	}
	return repeat(ctx, s, "prune", p.every, func() error { return p.once(ctx, s, store) })
}

// once deletes all keys whose retention is over.
func (p *prune) once(ctx context.Context, s Streams, store *pgstore.Store) error {
	total, err := store.PruneAll(ctx, p.batch)
	if err != nil {
		return fmt.Errorf("after %s: %w", term.Plural(total, "key", "keys"), err)
	}
	s.sayf("idemsk prune: %s deleted from %s\n", term.Plural(total, "key", "keys"), term.Escape(p.table))
	return nil
}

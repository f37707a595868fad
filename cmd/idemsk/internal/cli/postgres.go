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
	"github.com/idemsk/idemsk/internal/pgledger"
)

// postgresFlags are the flags of the verbs that look after a table in PostgreSQL.
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
		return nil, usagef("no database is named: set IDEMSK_STORE_URL, or give --store-url")
	}
	pool, err := pgstore.NewPool(url)
	if err != nil {
		return nil, &usageError{err}
	}
	return pool, nil
}

func migrateVerb() verb {
	return verb{
		name: "migrate", short: "makes the table of keys in PostgreSQL, or brings it up to date",
		about: `
Applies the migrations that the table has not had, all in one transaction; does nothing if there are none. Nothing else changes a
schema. The role needs CREATE on the schema, and must own a table that is there already.`,
		examples: []string{
			"IDEMSK_STORE_URL=postgres://owner@db/payments idemsk migrate",
			"idemsk migrate --table idempotency.keys     # in a schema that is there: CREATE SCHEMA idempotency",
			"idemsk migrate --ledger idemsk-ledger       # for the example function",
		},
		flags: func(fs *flag.FlagSet) action {
			var m migrate
			m.declare(fs)
			fs.StringVar(&m.ledger, "ledger", "", "make the `TABLE` of the example function's ledger too (its IDEMSK_LEDGER_TABLE)")
			return m.run
		},
	}
}

// noSuchSchema is PostgreSQL's code for it.
const noSuchSchema = "3F000"

type migrate struct {
	postgresFlags
	ledger string
}

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
		return fmt.Errorf("there is no schema for the table %s: CREATE SCHEMA first, or name a table in another one: %w", m.table, refused)
	}
	if err != nil {
		return err
	}
	for _, name := range applied {
		if _, err := fmt.Fprintf(s.Out, "applied %s\n", name); err != nil {
			return err
		}
	}
	if m.ledger != "" {
		if err := pgledger.Ledger(m.ledger).Create(ctx, pool); err != nil {
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
Deletes the keys whose retention is over, in short transactions that lock nothing but the rows they delete. Run it by a schedule, or
let it run with --every; any number may run at once. DynamoDB does the same by TTL, Redis by itself.`,
		examples: []string{
			"IDEMSK_STORE_URL=postgres://idemsk@db/payments idemsk prune", "idemsk prune --batch 500",
			"idemsk prune --every 1h                     # until it is interrupted",
		},
		flags: func(fs *flag.FlagSet) action {
			var p prune
			p.declare(fs)
			fs.IntVar(&p.batch, "batch", defaultBatch, "delete `N` keys in one transaction")
			fs.DurationVar(&p.every, "every", 0, "do it again and again, with so much `TIME` between")
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
	if p.every == 0 {
		return p.once(ctx, s, store)
	}
	again := time.NewTicker(p.every)
	defer again.Stop()
	for {
		if err := p.once(ctx, s, store); err != nil && ctx.Err() == nil {
			s.sayf("idemsk prune: %s\n", term.EscapeLines(err.Error())) // the server may be back next time
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil // as it was asked to
		}
	}
}

// once deletes what there is.
func (p *prune) once(ctx context.Context, s Streams, store *pgstore.Store) error {
	total := 0
	for {
		n, err := store.Prune(ctx, p.batch)
		if total += n; err != nil {
			return fmt.Errorf("after %s: %w", term.Plural(total, "key", "keys"), err)
		}
		if n < p.batch {
			s.sayf("idemsk prune: %s deleted from %s\n", term.Plural(total, "key", "keys"), term.Escape(p.table))
			return nil
		}
	}
}

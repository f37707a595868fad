package target

import (
	"cmp"
	"flag"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/idem/pgstore"
)

// PostgresFlags are the flags of verbs that manage a table in PostgreSQL.
type PostgresFlags struct{ URL, Table string }

// DeclareStoreURL declares --store-url alone.
func (p *PostgresFlags) DeclareStoreURL(fs *flag.FlagSet) {
	fs.StringVar(&p.URL, "store-url", "",
		"the `URL` of the database, postgres://user:password@host:port/name\n"+
			"(else IDEMSK_STORE_URL, which keeps it out of process lists)")
}

// Declare declares the flags, with the table of keys.
func (p *PostgresFlags) Declare(fs *flag.FlagSet) {
	p.DeclareStoreURL(fs)
	declareTable(fs, &p.Table, pgstore.DefaultTable, "the `TABLE` of idempotency keys")
}

// Open returns a pool of connections. It does not connect.
func (p *PostgresFlags) Open() (*pgxpool.Pool, error) {
	url := cmp.Or(p.URL, os.Getenv("IDEMSK_STORE_URL"))
	if url == "" {
		return nil, command.Usagef("the database is missing: set IDEMSK_STORE_URL, or give --store-url")
	}
	pool, err := pgstore.NewPool(url)
	if err != nil {
		return nil, &command.UsageError{Err: err}
	}
	return pool, nil
}

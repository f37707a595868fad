package pgoutbox

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/internal/pgmigrate"
)

// What is wrong with a table, for errors.Is. The error tells what to do.
var (
	// ErrNoTable says that the table has not been made.
	ErrNoTable = errors.New("pgoutbox: the table has not been made")
	// ErrTableOlder says that there are migrations which the table has not had.
	ErrTableOlder = errors.New("pgoutbox: the table is older than this program")
	// ErrTableNewer says that the table has had migrations which this program does not know.
	ErrTableNewer = errors.New("pgoutbox: the table is newer than this program")
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrationLock keeps migrations from each other. It has no meaning.
const migrationLock = 0x6f7574626f78

func schema() *pgmigrate.Schema {
	return &pgmigrate.Schema{
		Files: migrationFiles, Lock: migrationLock, Command: "pgoutbox.Migrate (idemsk relay --migrate)", Rename: "name the right table",
		Also:    func(t pgmigrate.Table) []string { return []string{"{{wake}}", t.SQL("_wake")} },
		NoTable: ErrNoTable, Older: ErrTableOlder, Newer: ErrTableNewer,
	}
}

// Migrate makes a table (default DefaultTable), or brings an older one up to date, and returns the names of the migrations
// that were applied: none if there was nothing to do. All are one transaction: they are applied or they are not. Any number of
// processes may call it at once. Nothing else in this package changes a schema.
//
// The role needs CREATE on the schema, and must own a table that is there already.
func Migrate(ctx context.Context, pool *pgxpool.Pool, name string) (applied []string, err error) {
	t, err := pgmigrate.ParseTable(cmp.Or(name, DefaultTable))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidConfig, err)
	}
	if applied, err = schema().Migrate(ctx, pool, t); err != nil {
		return nil, fmt.Errorf("pgoutbox: migrating table %s: %w", t, err)
	}
	return applied, nil
}

// Check looks at the table, and returns ErrNoTable, ErrTableOlder, or what keeps it from looking, wrapped.
//
// ErrTableNewer is a warning. Migrations only add, so that a program goes on working while a newer one is rolled out.
func (o *Outbox) Check(ctx context.Context, db Querier) error {
	version, err := pgmigrate.Version(ctx, db, o.table)
	if err == nil {
		err = schema().Check(o.table, version)
	}
	if err != nil {
		return fmt.Errorf("pgoutbox: check of table %s: %w", o.table, err)
	}
	return nil
}

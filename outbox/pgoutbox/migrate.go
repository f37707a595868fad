package pgoutbox

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/internal/pg/pgmigrate"
)

// The faults of a table, for errors.Is.
var (
	// ErrNoTable means that the table does not exist.
	ErrNoTable = errors.New("pgoutbox: the table does not exist")
	// ErrTableOlder means that migrations have not been applied to the table.
	ErrTableOlder = errors.New("pgoutbox: the table is older than this program")
	// ErrTableNewer means that the table has migrations that this program does not know.
	ErrTableNewer = errors.New("pgoutbox: the table is newer than this program")
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrationLock is the advisory lock of migrations. The number has no meaning.
const migrationLock = 0x6f7574626f78

func schema() *pgmigrate.Schema {
	return &pgmigrate.Schema{
		Files: migrationFiles, Lock: migrationLock, Command: "pgoutbox.Migrate (idemsk relay --migrate)",
		Rename:  "name the right table",
		Also:    func(t pgmigrate.Table) []string { return []string{"{{wake}}", t.SQL("_wake")} },
		NoTable: ErrNoTable, Older: ErrTableOlder, Newer: ErrTableNewer,
	}
}

// Migrate creates a table, or updates an older one, and returns the names of the applied migrations. All are
// applied in one transaction. Any number of processes may call it concurrently. Nothing else in this package
// changes a schema. Default name: DefaultTable.
//
// The role needs CREATE on the schema, and must own an existing table.
func Migrate(ctx context.Context, pool *pgxpool.Pool, name string) (applied []string, err error) {
	t, err := pgmigrate.ParseTable(cmp.Or(name, DefaultTable))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidConfig, err)
	}
	if applied, err = schema().Migrate(ctx, pool, t); err != nil {
		return nil, fmt.Errorf("pgoutbox: migrating table %s: %w%s", t, err, hint(err))
	}
	return applied, nil
}

// Check checks the table. It returns ErrNoTable or ErrTableOlder (wrapped), or the error of the query.
//
// ErrTableNewer is a warning: migrations only add, so a program keeps working while a newer one is deployed.
func (o *Outbox) Check(ctx context.Context, db Querier) error {
	version, err := pgmigrate.Version(ctx, db, o.table)
	if err == nil {
		err = schema().Check(o.table, version)
	}
	if err != nil {
		return fmt.Errorf("pgoutbox: check of table %s: %w%s", o.table, err, hint(err))
	}
	return nil
}

package pgoutbox

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/internal/pgmigrate"
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

// migrations returns the migrations of a table, in order.
func migrations(t table) ([]pgmigrate.Step, error) {
	return pgmigrate.Steps(migrationFiles, strings.NewReplacer("{{table}}", t.sql(""), "{{wake}}", t.sql("_wake")))
}

// migrationLock is the advisory lock of migrations. The number has no meaning.
const migrationLock = 0x6f7574626f78

// Migrate creates a table, or updates an older one, and returns the names of the applied migrations. All are applied in one
// transaction. Any number of processes may call it concurrently. Nothing else in this package changes a schema. Default name:
// DefaultTable.
//
// The role needs CREATE on the schema, and must own an existing table.
func Migrate(ctx context.Context, pool *pgxpool.Pool, name string) (applied []string, err error) {
	t, err := parseTable(cmp.Or(name, DefaultTable))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidConfig, err)
	}
	steps, err := migrations(t)
	if err != nil {
		return nil, fmt.Errorf("pgoutbox: %w", err)
	}
	todo := pgmigrate.Migration{Had: t.sql(pgmigrate.Suffix), Lock: migrationLock, Steps: steps, Newer: tableNewer}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		applied, err = todo.Apply(ctx, tx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("pgoutbox: migrating table %s: %w", t, err)
	}
	return applied, nil
}

// Check checks the table. It returns ErrNoTable or ErrTableOlder (wrapped), or the error of the query.
//
// ErrTableNewer is a warning: migrations only add, so a program keeps working while a newer one is deployed.
func (o *Outbox) Check(ctx context.Context, db Querier) error {
	steps, err := migrations(o.table)
	if err != nil {
		return fmt.Errorf("pgoutbox: %w", err)
	}
	var exists bool
	var version int
	err = db.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL AND to_regclass($2) IS NOT NULL`,
		o.table.sql(""), o.table.sql(pgmigrate.Suffix)).Scan(&exists)
	if err == nil && exists {
		version, err = pgmigrate.Version(ctx, db, o.table.sql(pgmigrate.Suffix))
	}
	switch {
	case err != nil:
	case !exists:
		err = fmt.Errorf("%w in this database: run pgoutbox.Migrate (idemsk relay --migrate), or name the right table", ErrNoTable)
	case version < len(steps):
		err = fmt.Errorf("%w: it is at version %d, and the program wants %d: run pgoutbox.Migrate (idemsk relay --migrate)", ErrTableOlder, version, len(steps))
	case version > len(steps):
		err = tableNewer(version, len(steps))
	}
	if err != nil {
		return fmt.Errorf("pgoutbox: check of table %s: %w", o.table, err)
	}
	return nil
}

func tableNewer(version, known int) error {
	return fmt.Errorf("%w: it is at version %d, and the program knows versions up to %d: deploy the newer program", ErrTableNewer, version, known)
}

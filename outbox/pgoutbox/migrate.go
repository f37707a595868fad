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

// migrations returns the steps, for a table, in order.
func migrations(t table) ([]pgmigrate.Step, error) {
	return pgmigrate.Steps(migrationFiles, strings.NewReplacer("{{table}}", t.sql(""), "{{wake}}", t.sql("_wake")))
}

// migrationLock keeps migrations from each other. It has no meaning.
const migrationLock = 0x6f7574626f78

// Migrate makes a table (default DefaultTable), or brings an older one up to date, and returns the names of the migrations
// that were applied: none if there was nothing to do. All are one transaction: they are applied or they are not. Any number of
// processes may call it at once. Nothing else in this package changes a schema.
//
// The role needs CREATE on the schema, and must own a table that is there already.
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

// Check looks at the table, and returns ErrNoTable, ErrTableOlder, or what keeps it from looking, wrapped.
//
// ErrTableNewer is a warning. Migrations only add, so that a program goes on working while a newer one is rolled out.
func (o *Outbox) Check(ctx context.Context, db Querier) error {
	steps, err := migrations(o.table)
	if err != nil {
		return fmt.Errorf("pgoutbox: %w", err)
	}
	var there bool
	var version int
	err = db.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL AND to_regclass($2) IS NOT NULL`,
		o.table.sql(""), o.table.sql(pgmigrate.Suffix)).Scan(&there)
	if err == nil && there {
		version, err = pgmigrate.Version(ctx, db, o.table.sql(pgmigrate.Suffix))
	}
	switch {
	case err != nil:
	case !there:
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

package pgoutbox

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
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

// migration is a step from one version of the table to the next; the first leads to version 1.
type migration struct {
	name string // of its file
	sql  string
}

var migrationName = regexp.MustCompile(`^(\d{4})_[a-z_]+\.sql$`)

// migrations returns the steps, for a table, in order.
func migrations(t table) ([]migration, error) {
	files, err := fs.ReadDir(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	var steps []migration
	for _, f := range files { // in the order of names
		version := fmt.Sprintf("%04d", len(steps)+1)
		if m := migrationName.FindStringSubmatch(f.Name()); m == nil || m[1] != version {
			return nil, fmt.Errorf("migration %s: want a name like %s_create.sql", f.Name(), version)
		}
		text, err := fs.ReadFile(migrationFiles, "migrations/"+f.Name())
		if err != nil {
			return nil, err
		}
		sql := strings.NewReplacer("{{table}}", t.sql(""), "{{wake}}", t.sql("_wake")).Replace(string(text))
		steps = append(steps, migration{name: f.Name(), sql: sql})
	}
	return steps, nil
}

// migrationsSuffix names the table that holds which migrations a table has had.
const migrationsSuffix = "_migrations"

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
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		applied, err = migrate(ctx, tx, t, steps)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("pgoutbox: migrating table %s: %w", t, err)
	}
	return applied, nil
}

func migrate(ctx context.Context, tx pgx.Tx, t table, steps []migration) (applied []string, err error) {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(migrationLock)); err != nil {
		return nil, err
	}
	had := t.sql(migrationsSuffix)
	if _, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS `+had+` (
		version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`); err != nil {
		return nil, err
	}
	var version int
	if err := tx.QueryRow(ctx, `SELECT coalesce(max(version), 0) FROM `+had).Scan(&version); err != nil {
		return nil, err
	}
	if version > len(steps) {
		return nil, tableNewer(version, len(steps))
	}
	for n, step := range steps[version:] {
		if _, err := tx.Conn().PgConn().Exec(ctx, step.sql).ReadAll(); err != nil {
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
		if _, err := tx.Exec(ctx, `INSERT INTO `+had+` (version, name) VALUES ($1, $2)`, version+n+1, step.name); err != nil {
			return nil, err
		}
		applied = append(applied, step.name)
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
		o.table.sql(""), o.table.sql(migrationsSuffix)).Scan(&there)
	if err == nil && there {
		err = db.QueryRow(ctx, `SELECT coalesce(max(version), 0) FROM `+o.table.sql(migrationsSuffix)).Scan(&version)
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

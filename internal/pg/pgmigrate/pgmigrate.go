// Package pgmigrate migrates a table of PostgreSQL by numbered steps, each applied once, and reports whether
// the table is up to date.
package pgmigrate

import (
	"context"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// suffix is appended to a table's name to name the table of its applied steps.
const suffix = "_migrations"

// Schema describes a kind of table.
type Schema struct {
	// the steps, migrations/0001_create.sql and so on; {{table}} is the table's name
	Files fs.FS
	// further placeholders in them, as arguments of strings.NewReplacer; may be nil
	Also    func(t Table) (oldnew []string)
	Lock    int64  // the advisory lock that serialises migrations
	Command string // the command that migrates, for messages
	Rename  string // how to name another table, for messages
	// checks the server before a migration; may be nil
	Before                func(context.Context, pgx.Tx) error
	NoTable, Older, Newer error // the errors that Check wraps
}

// step leads from one version of a table to the next; the first to version 1.
type step struct{ name, sql string }

var fileName = regexp.MustCompile(`^(\d{4})_[a-z_]+\.sql$`)

// steps returns the steps of a table, in order.
func (s *Schema) steps(t Table) ([]step, error) {
	entries, err := fs.ReadDir(s.Files, "migrations")
	if err != nil {
		return nil, err
	}
	oldnew := []string{"{{table}}", t.SQL("")}
	if s.Also != nil {
		oldnew = append(oldnew, s.Also(t)...)
	}
	names := strings.NewReplacer(oldnew...)
	var steps []step
	for _, f := range entries { // in the order of names
		version := fmt.Sprintf("%04d", len(steps)+1)
		if m := fileName.FindStringSubmatch(f.Name()); m == nil || m[1] != version {
			return nil, fmt.Errorf("migration %s: want a name like %s_create.sql", f.Name(), version)
		}
		text, err := fs.ReadFile(s.Files, "migrations/"+f.Name())
		if err != nil {
			return nil, err
		}
		steps = append(steps, step{name: f.Name(), sql: names.Replace(string(text))})
	}
	return steps, nil
}

// Migrate creates a table or migrates it, in one transaction. It returns the names of the steps that it
// applied.
func (s *Schema) Migrate(ctx context.Context, pool *pgxpool.Pool, t Table) (applied []string, err error) {
	steps, err := s.steps(t)
	if err != nil {
		return nil, err
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if s.Before != nil {
			if err := s.Before(ctx, tx); err != nil {
				return err
			}
		}
		applied, err = s.apply(ctx, tx, t.SQL(suffix), steps)
		return err
	})
	return applied, err
}

// apply applies the steps that are not in the table of applied steps.
func (s *Schema) apply(ctx context.Context, tx pgx.Tx, had string, steps []step) (applied []string,
	err error) {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, s.Lock); err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS `+had+` (
		version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`); err != nil {
		return nil, err
	}
	version, err := lastStep(ctx, tx, had)
	if err != nil {
		return nil, err
	}
	if version > len(steps) {
		return nil, s.newer(version, len(steps))
	}
	for n, step := range steps[version:] {
		if _, err := tx.Conn().PgConn().Exec(ctx, step.sql).ReadAll(); err != nil {
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
		if _, err := tx.Exec(ctx, `INSERT INTO `+had+` (version, name) VALUES ($1, $2)`, version+n+1,
			step.name); err != nil {
			return nil, err
		}
		applied = append(applied, step.name)
	}
	return applied, nil
}

// Querier is a pool, a connection or a transaction.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Version returns the number of the last step that was applied to a table, -1 if the table does not exist.
func Version(ctx context.Context, db Querier, t Table) (int, error) {
	var there bool
	err := db.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL AND to_regclass($2) IS NOT NULL`, t.SQL(""),
		t.SQL(suffix)).Scan(&there)
	if err != nil || !there {
		return -1, err
	}
	return lastStep(ctx, db, t.SQL(suffix))
}

func lastStep(ctx context.Context, db Querier, had string) (version int, err error) {
	err = db.QueryRow(ctx, `SELECT coalesce(max(version), 0) FROM `+had).Scan(&version)
	return version, err
}

// Check returns why this program can't use a table of a Version: NoTable or Older, wrapped. Newer is a
// warning.
func (s *Schema) Check(t Table, version int) error {
	steps, err := s.steps(t)
	switch {
	case err != nil:
		return err
	case version < 0:
		return fmt.Errorf("%w in this database: run %s, or %s", s.NoTable, s.Command, s.Rename)
	case version < len(steps):
		return fmt.Errorf("%w: it is at version %d, and the program wants %d: run %s", s.Older, version,
			len(steps), s.Command)
	case version > len(steps):
		return s.newer(version, len(steps))
	}
	return nil
}

func (s *Schema) newer(version, known int) error {
	return fmt.Errorf("%w: it is at version %d, and the program knows versions up to %d: deploy the newer program", s.Newer, version, known)
}

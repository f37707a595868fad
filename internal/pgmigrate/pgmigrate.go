// Package pgmigrate brings a table of PostgreSQL up to date by numbered steps, each applied once.
package pgmigrate

import (
	"context"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Suffix is what a table's name gets to name the table of the steps that it has had.
const Suffix = "_migrations"

// Step leads from one version of a table to the next; the first to version 1.
type Step struct {
	Name string // of its file
	SQL  string
}

var fileName = regexp.MustCompile(`^(\d{4})_[a-z_]+\.sql$`)

// Steps reads the steps in the folder migrations, in order, and replaces what stands for names in them.
func Steps(files fs.FS, names *strings.Replacer) ([]Step, error) {
	entries, err := fs.ReadDir(files, "migrations")
	if err != nil {
		return nil, err
	}
	var steps []Step
	for _, f := range entries { // in the order of names
		version := fmt.Sprintf("%04d", len(steps)+1)
		if m := fileName.FindStringSubmatch(f.Name()); m == nil || m[1] != version {
			return nil, fmt.Errorf("migration %s: want a name like %s_create.sql", f.Name(), version)
		}
		text, err := fs.ReadFile(files, "migrations/"+f.Name())
		if err != nil {
			return nil, err
		}
		steps = append(steps, Step{Name: f.Name(), SQL: names.Replace(string(text))})
	}
	return steps, nil
}

// Migration brings a table up to date.
type Migration struct {
	Had   string // the table of the steps that it has had, as SQL has it
	Lock  int64  // the advisory lock that keeps migrations from each other
	Steps []Step
	Newer func(version, known int) error // the error if it has had more
}

// Apply applies what the table has not had, and returns the names of these steps.
func (m *Migration) Apply(ctx context.Context, tx pgx.Tx) (applied []string, err error) {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, m.Lock); err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS `+m.Had+` (
		version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`); err != nil {
		return nil, err
	}
	version, err := Version(ctx, tx, m.Had)
	if err != nil {
		return nil, err
	}
	if version > len(m.Steps) {
		return nil, m.Newer(version, len(m.Steps))
	}
	for n, step := range m.Steps[version:] {
		if _, err := tx.Conn().PgConn().Exec(ctx, step.SQL).ReadAll(); err != nil {
			return nil, fmt.Errorf("%s: %w", step.Name, err)
		}
		if _, err := tx.Exec(ctx, `INSERT INTO `+m.Had+` (version, name) VALUES ($1, $2)`, version+n+1, step.Name); err != nil {
			return nil, err
		}
		applied = append(applied, step.Name)
	}
	return applied, nil
}

// Querier is a pool, a connection or a transaction.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Version returns which step was the last that a table had, by the table of its steps.
func Version(ctx context.Context, db Querier, had string) (version int, err error) {
	err = db.QueryRow(ctx, `SELECT coalesce(max(version), 0) FROM `+had).Scan(&version)
	return version, err
}

// Package migrate is the verb that creates or updates the table of keys in PostgreSQL.
package migrate

import (
	"context"
	_ "embed" // help.txt
	"errors"
	"flag"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/target"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/idem/pgstore"
)

//go:embed help.txt
var help string

// Verb returns the verb migrate.
func Verb() command.Verb {
	return command.Verb{
		Name: "migrate", Short: "creates or updates the table of keys in PostgreSQL", Help: help,
		Flags: func(fs *flag.FlagSet) command.Action {
			var m invocation
			m.Declare(fs)
			return m.run
		},
	}
}

// noSuchSchema is PostgreSQL's error code invalid_schema_name.
const noSuchSchema = "3F000"

// invocation is a run of the verb with its flags.
type invocation struct{ target.PostgresFlags }

func (m *invocation) run(ctx context.Context, s command.Streams, args []string) error {
	if len(args) > 0 {
		return command.Unexpected(args)
	}
	pool, err := m.Open()
	if err != nil {
		return err
	}
	defer pool.Close()
	applied, err := pgstore.Migrate(ctx, pool, m.Table)
	if refused := new(pgconn.PgError); errors.As(err, &refused) && refused.Code == noSuchSchema {
		return fmt.Errorf("the schema of the table %s does not exist: run CREATE SCHEMA first, or name a "+
			"table in another schema: %w", m.Table, refused)
	}
	if err != nil {
		return err
	}
	for _, name := range applied {
		if _, err := fmt.Fprintf(s.Out, "applied %s\n", name); err != nil {
			return err
		}
	}
	s.Sayf("idemsk migrate: %s applied to %s\n", term.Plural(len(applied), "migration", "migrations"),
		term.Escape(m.Table))
	return nil
}

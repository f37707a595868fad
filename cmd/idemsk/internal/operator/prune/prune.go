// Package prune is the verb that deletes keys in PostgreSQL whose retention is over.
package prune

import (
	"context"
	_ "embed" // help.txt
	"flag"
	"fmt"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/target"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/idem/pgstore"
)

//go:embed help.txt
var help string

// Verb returns the verb prune.
func Verb() command.Verb {
	return command.Verb{
		Name: "prune", Short: "deletes keys in PostgreSQL whose retention is over", Help: help,
		Flags: func(fs *flag.FlagSet) command.Action {
			var p invocation
			p.Declare(fs)
			fs.IntVar(&p.batch, "batch", defaultBatch, "delete `N` keys in one transaction")
			fs.DurationVar(&p.every, "every", 0, "repeat until interrupted, with this `TIME` between runs")
			return p.run
		},
	}
}

const defaultBatch = 1000

// invocation is a run of the verb with its flags.
type invocation struct {
	target.PostgresFlags
	batch int
	every time.Duration
}

func (p *invocation) run(ctx context.Context, s command.Streams, args []string) error {
	switch {
	case len(args) > 0:
		return command.Unexpected(args)
	case p.batch < 1:
		return command.Usagef("--batch is %d: want 1 or more", p.batch)
	case p.every < 0:
		return command.Usagef("--every is %s: want a duration above 0", p.every)
	}
	pool, err := p.Open()
	if err != nil {
		return err
	}
	defer pool.Close()
	store, err := pgstore.New(pool, pgstore.Config{Table: p.Table})
	if err != nil {
		return &command.UsageError{Err: err}
	}
	return command.Repeat(ctx, s, "prune", p.every, func() error { return p.once(ctx, s, store) })
}

// once deletes all keys whose retention is over.
func (p *invocation) once(ctx context.Context, s command.Streams, store *pgstore.Store) error {
	total, err := store.PruneAll(ctx, p.batch)
	if err != nil {
		return fmt.Errorf("after %s: %w", term.Plural(total, "key", "keys"), err)
	}
	s.Sayf("idemsk prune: %s deleted from %s\n", term.Plural(total, "key", "keys"), term.Escape(p.Table))
	return nil
}

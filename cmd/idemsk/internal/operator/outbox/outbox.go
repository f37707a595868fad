// Package outbox is the verb that lists the parked events of an outbox and requeues them.
package outbox

import (
	"context"
	_ "embed" // help.txt
	"flag"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/flags"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
)

//go:embed help.txt
var help string

// Verb returns the verb outbox.
func Verb() command.Verb {
	return command.Verb{
		Name: "outbox", Short: "lists the parked events of an outbox, and requeues them", Help: help,
		Flags: func(fs *flag.FlagSet) command.Action {
			o := invocation{given: make(map[string]bool)}
			o.declare(fs)
			return func(ctx context.Context, s command.Streams, args []string) error {
				fs.Visit(func(f *flag.Flag) { o.given[f.Name] = true })
				return o.run(ctx, s, args)
			}
		},
	}
}

// invocation is a run of the verb with its flags.
type invocation struct {
	Flags
	limit             int
	json              bool
	requeue, all, yes bool
	from, to          time.Time
	ids               []string
	given             map[string]bool // the flags set on the command line
}

func (o *invocation) declare(fs *flag.FlagSet) {
	o.DeclareStoreURL(fs)
	fs.StringVar(&o.Table, "table", pgoutbox.DefaultTable, "the `TABLE` of the outbox in PostgreSQL")
	fs.StringVar(&o.Dynamo, "outbox-table", "",
		"the `TABLE` of the outbox in DynamoDB, instead of PostgreSQL")
	o.AWS.Declare(fs)
	fs.IntVar(&o.limit, "limit", flags.DefaultLimit, "list at most `N`; 0 for all")
	fs.BoolVar(&o.json, "json", false, "print each entry as a line of JSON")
	fs.BoolVar(&o.requeue, "requeue", false, "send the events with these IDs again")
	fs.BoolVar(&o.all, "all", false, "with --requeue: all parked events")
	bound := func(to *time.Time) func(string) error {
		return func(text string) (err error) {
			*to, err = flags.ParseTime(text, time.Now())
			return err
		}
	}
	fs.Func("from", "with --requeue, in DynamoDB: the items created at a `TIME` (2026-01-02T15:04:05Z, or a "+
		"duration ago: 36h) or later\n"+
		"that have no parked event", bound(&o.from))
	fs.Func("to", "and before a `TIME`; the stream keeps the last 24h", bound(&o.to))
	fs.BoolVar(&o.yes, "yes", false, "don't ask for confirmation, with --all or --from and --to")
}

func (o *invocation) run(ctx context.Context, s command.Streams, args []string) error {
	o.ids = args
	if err := o.check(s); err != nil {
		return err
	}
	box, err := o.Open(ctx)
	if err != nil {
		return err
	}
	defer box.Close()
	if box.Cost != "" {
		s.Sayf("idemsk outbox: %s\n", term.Escape(box.Cost))
	}
	if o.requeue {
		return box.Explain(o.requeueIn(ctx, s, box))
	}
	return box.Explain(o.listFrom(ctx, s, box))
}

// check returns a usage error if the flags are not valid.
func (o *invocation) check(s command.Streams) error {
	if err := o.checkTogether(); err != nil {
		return err
	}
	switch {
	case o.given["outbox-table"] && o.Dynamo == "":
		return command.Usagef("--outbox-table is empty: give the name of a table")
	case o.limit < 0:
		return command.Usagef("--limit is %d: want 0 (all) or more", o.limit)
	case !o.requeue && len(o.ids) > 0:
		return command.Usagef("unexpected argument %q: to send events again give --requeue", o.ids[0])
	case !o.requeue:
		return nil
	case o.given["from"] != o.given["to"]:
		return command.Usagef("--from and --to need each other")
	case o.given["from"] && !o.from.Before(o.to):
		return command.Usagef("--from is not before --to")
	}
	ways := 0
	for _, way := range []bool{len(o.ids) > 0, o.all, o.given["from"]} {
		if way {
			ways++
		}
	}
	switch {
	case ways != 1:
		return command.Usagef("--requeue needs one of: IDs, --all, or --from and --to")
	case len(o.ids) == 0 && !o.yes && !term.IsTerminal(s.In):
		return command.Usagef("standard input is not a terminal: give --yes")
	}
	return nil
}

// checkTogether returns a usage error if flags exclude each other.
func (o *invocation) checkTogether() error {
	for _, group := range []struct {
		wrong bool
		says  string
		flags []string
	}{
		{!o.requeue, "is for --requeue", []string{"all", "from", "to", "yes"}},
		{o.requeue, "and --requeue exclude each other", []string{"limit", "json"}},
		{o.given["outbox-table"], "is for PostgreSQL, and --outbox-table names a table in DynamoDB: leave " +
			"one of them out", []string{"store-url", "table"}},
		{!o.given["outbox-table"], "is for DynamoDB: name the table with --outbox-table",
			[]string{"region", "endpoint-url", "from", "to"}},
	} {
		for _, name := range group.flags {
			if group.wrong && o.given[name] {
				return command.Usagef("--%s %s", name, group.says)
			}
		}
	}
	return nil
}

package cli

import (
	"context"
	"flag"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
)

func outboxVerb() verb {
	return verb{
		name: "outbox", args: "[ID ...]", short: "lists what an outbox has set aside, and has it sent again",
		about: `
Lists the events that Kafka has rejected for good (no such topic, not allowed, too large), which the relay has set aside in the outbox's
table. Values and headers are not shown. With --requeue the relay tries these again, those with an ID or --all; mend first what they
failed by. They come after later events of their key, with the same event-id; meanwhile nothing else is held up.

In DynamoDB (--outbox-table) it reads the whole table, and what a transaction has published for one topic and key is one item: what is
set aside of it is requeued together, by the item's ID or that of one of these events. When Kafka is back after more than 24 hours,
the stream has forgotten what the table still has (for 7 days): --requeue --from --to has the items of that time sent, also those that
had been.`,
		examples: []string{
			"IDEMSK_STORE_URL=postgres://idemsk@db/payments idemsk outbox",
			"idemsk outbox --outbox-table idemsk-outbox --json | jq -r .failure | sort | uniq -c",
			"idemsk outbox --requeue 019a7c54-0000-7000-8000-000000000001",
			"idemsk outbox --requeue --all --yes --outbox-table idemsk-outbox",
			"idemsk outbox --requeue --from 2026-01-02T15:00:00Z --to 24h --outbox-table idemsk-outbox    # until 24 hours ago",
		},
		flags: func(fs *flag.FlagSet) action {
			o := outboxCommand{given: make(map[string]bool)}
			o.declare(fs)
			return func(ctx context.Context, s Streams, args []string) error {
				fs.Visit(func(f *flag.Flag) { o.given[f.Name] = true })
				return o.run(ctx, s, args)
			}
		},
	}
}

type outboxCommand struct {
	postgresFlags
	awsFlags
	dynamo            string
	limit             int
	json              bool
	requeue, all, yes bool
	from, to          time.Time
	ids               []string
	given             map[string]bool // the flags that are on the command line
}

func (o *outboxCommand) declare(fs *flag.FlagSet) {
	o.declareStoreURL(fs)
	fs.StringVar(&o.table, "table", pgoutbox.DefaultTable, "the `TABLE` of the outbox in PostgreSQL")
	fs.StringVar(&o.dynamo, "outbox-table", "", "the `TABLE` of the outbox in DynamoDB, instead")
	o.awsFlags.declare(fs)
	fs.IntVar(&o.limit, "limit", defaultLimit, "list at most `N`; 0 for all")
	fs.BoolVar(&o.json, "json", false, "print each as a line of JSON")
	fs.BoolVar(&o.requeue, "requeue", false, "have the events with these IDs tried again")
	fs.BoolVar(&o.all, "all", false, "with --requeue: all that are set aside")
	bound := func(to *time.Time) func(string) error {
		return func(text string) (err error) {
			*to, err = parseBefore(text, time.Now())
			return err
		}
	}
	fs.Func("from", "with --requeue, in DynamoDB: the items created at a `TIME` (2026-01-02T15:04:05Z, or a duration ago: 36h) or later,\n"+
		"of which nothing is set aside", bound(&o.from))
	fs.Func("to", "and before a `TIME`: the stream still has what is not older than 24h", bound(&o.to))
	fs.BoolVar(&o.yes, "yes", false, "don't ask, with --all or --from and --to")
}

func (o *outboxCommand) run(ctx context.Context, s Streams, args []string) error {
	o.ids = args
	if err := o.check(s); err != nil {
		return err
	}
	box, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer box.close()
	if box.cost != "" {
		s.sayf("idemsk outbox: %s\n", term.Escape(box.cost))
	}
	if o.requeue {
		return box.explain(o.requeueIn(ctx, s, box))
	}
	return box.explain(o.listFrom(ctx, s, box))
}

// check finds what makes no sense.
func (o *outboxCommand) check(s Streams) error {
	if err := o.checkTogether(); err != nil {
		return err
	}
	switch {
	case o.given["outbox-table"] && o.dynamo == "":
		return usagef("--outbox-table is empty: give the name of a table")
	case o.limit < 0:
		return usagef("--limit is %d: want 0 (all) or more", o.limit)
	case !o.requeue && len(o.ids) > 0:
		return usagef("unexpected argument %q: to have events tried again give --requeue", o.ids[0])
	case !o.requeue:
		return nil
	case o.given["from"] != o.given["to"]:
		return usagef("--from and --to go together")
	case o.given["from"] && !o.from.Before(o.to):
		return usagef("--from is not before --to")
	}
	ways := 0
	for _, way := range []bool{len(o.ids) > 0, o.all, o.given["from"]} {
		if way {
			ways++
		}
	}
	switch {
	case ways != 1:
		return usagef("want IDs, --all, or --from and --to, to say what --requeue is for: one of these")
	case len(o.ids) == 0 && !o.yes && !term.IsTerminal(s.In):
		return usagef("this is no terminal to ask at: give --yes")
	}
	return nil
}

// checkTogether finds flags that are not for each other.
func (o *outboxCommand) checkTogether() error {
	for _, group := range []struct {
		wrong bool
		says  string
		flags []string
	}{
		{!o.requeue, "is for --requeue", []string{"all", "from", "to", "yes"}},
		{o.requeue, "is for the list, and not for --requeue", []string{"limit", "json"}},
		{o.given["outbox-table"], "is for PostgreSQL, and --outbox-table names a table in DynamoDB: leave one of them out", []string{"store-url", "table"}},
		{!o.given["outbox-table"], "is for DynamoDB: name the table with --outbox-table", []string{"region", "endpoint-url", "from", "to"}},
	} {
		for _, name := range group.flags {
			if group.wrong && o.given[name] {
				return usagef("--%s %s", name, group.says)
			}
		}
	}
	return nil
}

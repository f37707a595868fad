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
		name: "outbox", args: "[ID ...]", short: "lists the parked events of an outbox, and requeues them",
		about: `
Lists the parked events of an outbox: those that Kafka has rejected as often as the relay allows (unknown topic, no permission, too large).
Values and headers are not shown. With --requeue the relay sends them again: the events with these IDs, or --all. Fix the cause first.
Requeued events keep their event-id, and follow later events of their key. Other events do not wait for them.

In DynamoDB (--outbox-table) it reads the whole table. An item has the events of one transaction for one topic and key. All parked
events of an item are requeued together: give the ID of the item or of one of these events. If Kafka was unavailable for more than
24 hours, the stream has lost events that the table keeps for 7 days: --requeue --from --to sends the items created in that time,
also those that were already published.`,
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
	given             map[string]bool // the flags set on the command line
}

func (o *outboxCommand) declare(fs *flag.FlagSet) {
	o.declareStoreURL(fs)
	fs.StringVar(&o.table, "table", pgoutbox.DefaultTable, "the `TABLE` of the outbox in PostgreSQL")
	fs.StringVar(&o.dynamo, "outbox-table", "", "the `TABLE` of the outbox in DynamoDB, instead of PostgreSQL")
	o.awsFlags.declare(fs)
	fs.IntVar(&o.limit, "limit", defaultLimit, "list at most `N`; 0 for all")
	fs.BoolVar(&o.json, "json", false, "print each entry as a line of JSON")
	fs.BoolVar(&o.requeue, "requeue", false, "send the events with these IDs again")
	fs.BoolVar(&o.all, "all", false, "with --requeue: all parked events")
	bound := func(to *time.Time) func(string) error {
		return func(text string) (err error) {
			*to, err = parseBefore(text, time.Now())
			return err
		}
	}
	fs.Func("from", "with --requeue, in DynamoDB: the items created at a `TIME` (2026-01-02T15:04:05Z, or a duration ago: 36h) or later\n"+
		"that have no parked event", bound(&o.from))
	fs.Func("to", "and before a `TIME`; the stream keeps the last 24h", bound(&o.to))
	fs.BoolVar(&o.yes, "yes", false, "don't ask for confirmation, with --all or --from and --to")
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

// check returns a usage error if the flags are not valid.
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
		return usagef("unexpected argument %q: to send events again give --requeue", o.ids[0])
	case !o.requeue:
		return nil
	case o.given["from"] != o.given["to"]:
		return usagef("--from and --to need each other")
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
		return usagef("--requeue needs one of: IDs, --all, or --from and --to")
	case len(o.ids) == 0 && !o.yes && !term.IsTerminal(s.In):
		return usagef("standard input is not a terminal: give --yes")
	}
	return nil
}

// checkTogether returns a usage error if flags exclude each other.
func (o *outboxCommand) checkTogether() error {
	for _, group := range []struct {
		wrong bool
		says  string
		flags []string
	}{
		{!o.requeue, "is for --requeue", []string{"all", "from", "to", "yes"}},
		{o.requeue, "and --requeue exclude each other", []string{"limit", "json"}},
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

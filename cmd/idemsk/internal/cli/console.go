package cli

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"sync"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/console"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

func consoleVerb() verb {
	return verb{
		name: "console", args: "", short: "serves a page of a store: its keys, dead letters and parked events",
		about: `
Serves a page until it is interrupted: search a key, list entries by status and age, overdue keys, failures by cause, the parked events of an
outbox (--outbox-table), dead letters (--queue-url or --dead-letter-topic), and the report of idemsk reconcile. It is read-only. With --allow-changes
the page can delete an entry whose version was seen, redrive dead letters (to --brokers or --function-name), and requeue events.

The page reads the store only if a button is pressed. A key is one read. A listing reads at most 10,000 entries at a time: DynamoDB has no index of
states, so it is a scan. Reading dead letters of a queue hides them from other consumers until they are read, and raises their receive counts.
` + kafkaHelp,
		examples: []string{
			"idemsk console --table idemsk-prod --region eu-central-1 --namespace ledger --topic payments",
			"idemsk console --table idemsk-prod --queue-url https://sqs.eu-central-1.amazonaws.com/123456789012/letters --function-name payments --allow-changes",
			"IDEMSK_STORE_URL=postgres://idemsk@db/payments idemsk console --outbox-table outbox",
			"IDEMSK_UI_PASSWORD=… idemsk console --ui 0.0.0.0:7433",
		},
		flags: func(fs *flag.FlagSet) action {
			var c consoleCommand
			c.storeFlags.declare(fs)
			c.keyFlags.declare(fs, "searched keys")
			c.letters.declareLetters(fs)
			fs.StringVar(&c.outbox, "outbox-table", "", "the `TABLE` of the outbox, in the same DynamoDB or PostgreSQL")
			fs.BoolVar(&c.changes, "allow-changes", false, "let the page delete entries, redrive dead letters and requeue events")
			fs.StringVar(&c.ui, "ui", "", "serve the page at an `ADDRESS` (default "+pageAddress+", or a free port if that one is in use).\n"+
				"An address that is not on loopback needs a password in IDEMSK_UI_PASSWORD")
			return c.run
		},
	}
}

type consoleCommand struct {
	storeFlags
	keyFlags
	letters redriveCommand
	outbox  string
	changes bool
	ui      string
}

func (c *consoleCommand) run(ctx context.Context, s Streams, args []string) error {
	if len(args) > 0 {
		return usagef("unexpected argument %q", args[0])
	}
	if c.letters.queueURL != "" && c.letters.topic != "" {
		return usagef("--queue-url and --dead-letter-topic exclude each other")
	}
	c.letters.awsFlags = c.awsFlags
	if c.url != "" {
		c.awsFlags = awsFlags{} // --region and --endpoint-url are those of the queue then
	}
	if err := c.letters.checkLetters(); err != nil {
		return err
	}
	st, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer st.close()
	o := &operator{command: c, streams: s, store: st, entries: readings{ctx: ctx}}
	defer o.close()
	if err := o.openOutbox(ctx); err != nil {
		return err
	}
	page := console.Config{Addr: c.ui, Password: os.Getenv("IDEMSK_UI_PASSWORD")}
	if c.ui == "" {
		page.Addr, page.Fallback = pageAddress, true
	}
	err = console.Operate(ctx, page, o, func(url string) {
		mode := "read-only"
		if c.changes {
			mode = "with changes"
		}
		s.sayf("Page: %s (%s, %s)\n", url, term.Escape(st.place), mode)
	})
	if err != nil {
		return fmt.Errorf("--ui: %w", err)
	}
	return nil
}

// operator is the console.Operator of a store. It uses what the verbs of the same names use.
type operator struct {
	command *consoleCommand
	streams Streams
	store   *adminStore
	outbox  *outboxTable // nil without one

	entries readings

	queue sync.Mutex // for one reader of the dead letters: they hide them from each other
}

// Store implements console.Operator.
func (o *operator) Store(ctx context.Context) console.Store {
	c := o.command
	out := console.Store{
		Place: o.store.place, Cost: o.store.cost(ctx), Changes: c.changes, Letters: c.letters.where(), Redrive: c.letters.brokers+c.letters.function != "",
		Namespace: c.namespace, Topic: c.topic, Page: pageEntries, Most: mostRead,
	}
	if c.topic != "" {
		out.Namespace = cmp.Or(c.namespace, os.Getenv("IDEMSK_NAMESPACE"))
	}
	if o.outbox != nil {
		out.Outbox = o.outbox.place
		if o.outbox.cost != "" {
			out.Outbox += ": " + o.outbox.cost
		}
	}
	return out
}

// Do implements console.Operator.
func (o *operator) Do(ctx context.Context, c console.Change) (string, error) {
	switch {
	case !o.command.changes:
		return "", console.ErrReadOnly
	case c.Action == console.ChangeDelete:
		return o.delete(ctx, c.Key, c.Token)
	case c.Action == console.ChangeRedrive:
		return o.redrive(ctx, c.Letters)
	case c.Action == console.ChangeRequeue:
		return o.requeue(ctx, c.Events)
	}
	return "", fmt.Errorf("%w: %.40q", console.ErrAction, c.Action)
}

// close ends the listings and the connections.
func (o *operator) close() {
	o.entries.close()
	if o.outbox != nil {
		o.outbox.close()
	}
}

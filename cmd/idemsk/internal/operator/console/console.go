// Package console is the verb that serves the page of a store. The page itself is
// cmd/idemsk/internal/console.
package console

import (
	"cmp"
	"context"
	_ "embed" // help.txt
	"flag"
	"fmt"
	"os"
	"sync"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	page "github.com/idemsk/idemsk/cmd/idemsk/internal/console"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/flags"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/outbox"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/redrive"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/target"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

//go:embed help.txt
var help string

// Verb returns the verb console.
func Verb() command.Verb {
	return command.Verb{
		Name: "console", Help: help,
		Short: "serves a page of a store: its keys, dead letters and parked events",
		Flags: func(fs *flag.FlagSet) command.Action {
			var c invocation
			c.StoreFlags.Declare(fs)
			c.Keys.Declare(fs, "searched keys")
			c.letters.DeclareLetters(fs)
			fs.StringVar(&c.outbox, "outbox-table", "",
				"the `TABLE` of the outbox, in the same DynamoDB or PostgreSQL")
			fs.BoolVar(&c.changes, "allow-changes", false,
				"let the page delete entries, redrive dead letters and requeue events")
			fs.StringVar(&c.ui, "ui", "", "serve the page at an `ADDRESS` (default "+page.Address+", or a "+
				"free port if that one is in use).\n"+
				"An address that is not on loopback needs a password in IDEMSK_UI_PASSWORD")
			return c.run
		},
	}
}

// invocation is a run of the verb with its flags.
type invocation struct {
	target.StoreFlags
	flags.Keys
	letters redrive.Flags
	outbox  string
	changes bool
	ui      string
}

func (c *invocation) run(ctx context.Context, s command.Streams, args []string) error {
	if len(args) > 0 {
		return command.Unexpected(args)
	}
	if c.letters.QueueURL != "" && c.letters.Topic != "" {
		return command.Usagef("--queue-url and --dead-letter-topic exclude each other")
	}
	c.letters.AWS = c.AWS
	c.letters.Endpoint = cmp.Or(flags.LocalEndpoint(c.letters.QueueURL), c.Endpoint) // that of the keys may be another
	if c.URL != "" {
		c.AWS = flags.AWS{} // --region and --endpoint-url are those of the queue then
	}
	if err := c.letters.CheckLetters(); err != nil {
		return err
	}
	st, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	o := &operator{command: c, streams: s, store: st, entries: readings{ctx: ctx}}
	defer o.close()
	if err := o.openOutbox(ctx); err != nil {
		return err
	}
	at := page.Config{Addr: c.ui, Password: os.Getenv("IDEMSK_UI_PASSWORD")}
	if c.ui == "" {
		at.Addr, at.Fallback = page.Address, true
	}
	err = page.Operate(ctx, at, o, func(url string) {
		mode := "read-only"
		if c.changes {
			mode = "with changes"
		}
		s.Sayf("Page: %s (%s, %s)\n", url, term.Escape(st.Place), mode)
	})
	if err != nil {
		return fmt.Errorf("--ui: %w", err)
	}
	return nil
}

// operator is the page.Operator of a store. It uses what the verbs of the same names use.
type operator struct {
	command *invocation
	streams command.Streams
	store   *target.Store
	outbox  *outbox.Table // nil without one

	entries readings

	queue sync.Mutex // for one reader of the dead letters: they hide them from each other
}

// Store implements page.Operator.
func (o *operator) Store(ctx context.Context) page.Store {
	c := o.command
	out := page.Store{
		Place: o.store.Place, Cost: o.store.Cost(ctx), Changes: c.changes, Letters: c.letters.Where(),
		Redrive:   c.letters.Where() != "",
		Namespace: c.Namespace, Topic: c.Topic, Page: pageEntries, Most: mostRead,
	}
	if c.Topic != "" {
		out.Namespace = cmp.Or(c.Namespace, os.Getenv("IDEMSK_NAMESPACE"))
	}
	if o.outbox != nil {
		out.Outbox = o.outbox.Place
		if o.outbox.Cost != "" {
			out.Outbox += ": " + o.outbox.Cost
		}
	}
	return out
}

// Do implements page.Operator.
func (o *operator) Do(ctx context.Context, c page.Change) (string, error) {
	switch {
	case !o.command.changes:
		return "", page.ErrReadOnly
	case c.Action == page.ChangeDelete:
		return o.delete(ctx, c.Key, c.Token)
	case c.Action == page.ChangeRedrive:
		return o.redrive(ctx, c.Letters)
	case c.Action == page.ChangeRequeue:
		return o.requeue(ctx, c.Events)
	}
	return "", fmt.Errorf("%w: %.40q", page.ErrAction, c.Action)
}

// close ends the listings and the connections.
func (o *operator) close() {
	o.entries.close()
	if o.outbox != nil {
		o.outbox.Close()
	}
}

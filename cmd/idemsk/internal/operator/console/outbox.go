package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	page "github.com/idemsk/idemsk/cmd/idemsk/internal/console"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/outbox"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

var errNoOutbox = fmt.Errorf("%w: start the console with --outbox-table", page.ErrInput)

// openOutbox opens the outbox, which is in the same database as the keys.
func (o *operator) openOutbox(ctx context.Context) (err error) {
	c := o.command
	if c.outbox == "" {
		return nil
	}
	box := outbox.Flags{AWS: c.AWS, Dynamo: c.outbox}
	if c.Endpoint+c.Region == "" {
		box.URL = cmp.Or(c.URL, os.Getenv("IDEMSK_STORE_URL"))
	}
	if strings.HasPrefix(box.URL, "redis") {
		return command.Usagef("--outbox-table is for DynamoDB and PostgreSQL: Redis has no outbox")
	}
	if box.URL != "" {
		box.Table, box.Dynamo = c.outbox, ""
	}
	o.outbox, err = box.Open(ctx)
	return err
}

// maxParked is the number of parked events that are read for the page.
const maxParked = 500

// Parked implements page.Operator.
func (o *operator) Parked(ctx context.Context) (page.ParkedEvents, error) {
	out := page.ParkedEvents{Events: []page.Parked{}, Problems: []string{}}
	if o.outbox == nil {
		return out, errNoOutbox
	}
	for e, err := range o.outbox.Parked(ctx, maxParked+1) {
		switch {
		case errors.Is(err, outbox.ErrUnreadable):
			out.Problems = append(out.Problems, err.Error())
			continue
		case err != nil:
			return out, o.outbox.Explain(err)
		case len(out.Events) == maxParked:
			out.More = true
			return out, nil
		}
		out.Events = append(out.Events, page.Parked{
			ID: e.ID, Aggregate: e.Aggregate, Events: max(1, len(e.Events)), Topic: e.Topic, Key: e.KeyText(),
			Created: micros(e.CreatedAt), Parked: micros(e.ParkedAt), Attempts: e.Attempts,
			Failure: e.Failure,
		})
	}
	return out, nil
}

// requeue requeues some parked events, or all.
func (o *operator) requeue(ctx context.Context, chosen []page.Parked) (string, error) {
	if o.outbox == nil {
		return "", errNoOutbox
	}
	entries := make([]outbox.Entry, len(chosen))
	for i, e := range chosen {
		entries[i] = outbox.Entry{ID: e.ID, Aggregate: e.Aggregate}
	}
	var problems []error
	var err error
	if len(chosen) == 0 {
		entries, problems, err = o.outbox.AllParked(ctx)
		if err != nil {
			return "", o.outbox.Explain(err)
		}
	}
	events, more, err := o.outbox.Requeue(ctx, entries)
	done := term.Plural(events, "event", "events") + " requeued."
	if err = errors.Join(append(append(problems, more...), err)...); err != nil && events > 0 {
		err = fmt.Errorf("%s %w", done, err)
	}
	return done, o.outbox.Explain(err)
}

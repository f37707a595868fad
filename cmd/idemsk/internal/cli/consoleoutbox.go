package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/console"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

var errNoOutbox = fmt.Errorf("%w: start the console with --outbox-table", console.ErrInput)

// openOutbox opens the outbox, which is in the same database as the keys.
func (o *operator) openOutbox(ctx context.Context) (err error) {
	c := o.command
	if c.outbox == "" {
		return nil
	}
	box := outboxCommand{awsFlags: c.awsFlags, dynamo: c.outbox}
	if c.endpoint+c.region == "" {
		box.url = cmp.Or(c.url, os.Getenv("IDEMSK_STORE_URL"))
	}
	if strings.HasPrefix(box.url, "redis") {
		return usagef("--outbox-table is for DynamoDB and PostgreSQL: Redis has no outbox")
	}
	if box.url != "" {
		box.table, box.dynamo = c.outbox, ""
	}
	o.outbox, err = box.open(ctx)
	return err
}

// maxParked is the number of parked events that are read for the page.
const maxParked = 500

// Parked implements console.Operator.
func (o *operator) Parked(ctx context.Context) (console.ParkedEvents, error) {
	out := console.ParkedEvents{Events: []console.Parked{}, Problems: []string{}}
	if o.outbox == nil {
		return out, errNoOutbox
	}
	for e, err := range o.outbox.parked(ctx, maxParked+1) {
		switch {
		case errors.Is(err, errUnreadable):
			out.Problems = append(out.Problems, err.Error())
			continue
		case err != nil:
			return out, o.outbox.explain(err)
		case len(out.Events) == maxParked:
			out.More = true
			return out, nil
		}
		out.Events = append(out.Events, console.Parked{
			ID: e.ID, Aggregate: e.Aggregate, Events: max(1, len(e.Events)), Topic: e.Topic, Key: e.key(),
			Created: micros(e.CreatedAt), Parked: micros(e.ParkedAt), Attempts: e.Attempts, Failure: e.Failure,
		})
	}
	return out, nil
}

// requeue requeues some parked events, or all.
func (o *operator) requeue(ctx context.Context, chosen []console.Parked) (string, error) {
	if o.outbox == nil {
		return "", errNoOutbox
	}
	entries := make([]outboxEntry, len(chosen))
	for i, e := range chosen {
		entries[i] = outboxEntry{ID: e.ID, Aggregate: e.Aggregate}
	}
	var problems []error
	var err error
	if len(chosen) == 0 {
		entries, problems, err = (&outboxCommand{}).collect(ctx, o.outbox)
		if err != nil {
			return "", o.outbox.explain(err)
		}
	}
	events, more, err := o.outbox.requeue(ctx, entries)
	done := term.Plural(events, "event", "events") + " requeued."
	if err = errors.Join(append(append(problems, more...), err)...); err != nil && events > 0 {
		err = fmt.Errorf("%s %w", done, err)
	}
	return done, o.outbox.explain(err)
}

package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// requeueIn requeues the requested entries that are parked now, not those that are parked later. It returns
// command.ErrReported if some were not requeued, after it has printed why.
func (o *invocation) requeueIn(ctx context.Context, s command.Streams, box *Table) error {
	entries, problems, err := o.collect(ctx, box)
	if err != nil {
		return err
	}
	if len(o.ids) == 0 && !o.yes && len(entries) > 0 {
		if ok, err := command.Confirm(ctx, s, o.question(box, len(entries))); !ok || err != nil {
			s.Sayf("idemsk outbox: nothing was done\n")
			return err
		}
	}
	events, more, err := box.Requeue(ctx, entries)
	for _, p := range append(problems, more...) {
		s.Sayf("  %s\n", term.Escape(p.Error()))
	}
	if err == nil || events > 0 {
		s.Sayf("idemsk outbox: %s requeued in %s\n", term.Plural(events, "event", "events"),
			term.Escape(box.Place))
	}
	if err == nil && len(problems)+len(more) > 0 {
		return command.ErrReported
	}
	return err
}

func (o *invocation) question(box *Table, n int) string {
	if o.given["from"] {
		return fmt.Sprintf("Send the events of %s in %s again, created from %s until %s? Events that were "+
			"already published are sent twice.",
			term.Plural(n, box.One, box.Many), box.Place, o.from.UTC().Format(time.RFC3339),
			o.to.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("Send the %s again that are parked in %s? They follow later events of their keys.",
		term.Plural(n, box.One, box.Many), box.Place)
}

// AllParked returns the parked entries in the order of their creation, and a problem for each that can't be
// read.
func (box *Table) AllParked(ctx context.Context) (entries []Entry, problems []error, err error) {
	return new(invocation).collect(ctx, box)
}

// collect returns the requested entries in the order of their creation, and a problem for each that is not
// found. An ID is that of several events, if it recurs in other partitions of the table.
func (o *invocation) collect(ctx context.Context, box *Table) (entries []Entry, problems []error, err error) {
	found := box.Parked(ctx, 0)
	inPart := 0
	if o.given["from"] {
		found = box.Created(ctx, o.from, o.to, func() { inPart++ })
	}
	missing := make(map[string]bool) // of each requested ID, whether nothing was found
	for _, id := range o.ids {
		missing[strings.ToLower(id)] = true
	}
	for e, err := range found {
		wanted := len(o.ids) == 0
		for _, id := range append([]string{e.ID}, e.Events...) {
			id = strings.ToLower(id)
			if _, requested := missing[id]; requested {
				wanted, missing[id] = true, false
			}
		}
		switch {
		case err != nil && !errors.Is(err, ErrUnreadable):
			return nil, nil, err
		case !wanted:
		case err != nil:
			problems = append(problems, err)
		default:
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.ID, b.ID))
	})
	for _, id := range o.ids {
		if missing[strings.ToLower(id)] {
			missing[strings.ToLower(id)] = false // named once
			problems = append(problems, fmt.Errorf("%s is not parked in %s: it is published or still to be "+
				"sent, or does not exist", id, box.Place))
		}
	}
	if inPart > 0 {
		problems = append(problems, fmt.Errorf("%s of that time parked in part, and not requeued: first "+
			"requeue parked events (--requeue --all), then run this again",
			term.Plural(inPart, box.One+" is", box.Many+" are")))
	}
	return entries, problems, nil
}

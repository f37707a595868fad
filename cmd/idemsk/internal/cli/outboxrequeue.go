package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// requeueIn has what was asked for sent again: what there is of it now, so that what is set aside meanwhile is not tried again
// unseen. Its error may say that something is left to be done, which has been named.
func (o *outboxCommand) requeueIn(ctx context.Context, s Streams, box *outboxTable) error {
	entries, problems, err := o.collect(ctx, box)
	if err != nil {
		return err
	}
	if len(o.ids) == 0 && !o.yes && len(entries) > 0 {
		if ok, err := confirm(ctx, s, o.question(box, len(entries))); !ok || err != nil {
			s.sayf("idemsk outbox: nothing was done\n")
			return err
		}
	}
	events, more, err := box.requeue(ctx, entries)
	for _, p := range append(problems, more...) {
		s.sayf("  %s\n", term.Escape(p.Error()))
	}
	if err == nil || events > 0 {
		s.sayf("idemsk outbox: %s requeued in %s\n", term.Plural(events, "event", "events"), term.Escape(box.place))
	}
	if err == nil && len(problems)+len(more) > 0 {
		return errReported
	}
	return err
}

func (o *outboxCommand) question(box *outboxTable, n int) string {
	if o.given["from"] {
		return fmt.Sprintf("Send the events of %s in %s again, created from %s until %s? What had been published comes twice.",
			term.Plural(n, box.one, box.many), box.place, o.from.UTC().Format(time.RFC3339), o.to.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("Try the %s again that are set aside in %s? They come after later events of their keys.", term.Plural(n, box.one, box.many), box.place)
}

// collect finds the entries that were asked for, in the order of their creation, and names what is not among them.
func (o *outboxCommand) collect(ctx context.Context, box *outboxTable) (entries []outboxEntry, problems []error, err error) {
	found := box.aside(ctx, 0)
	inPart := 0
	if o.given["from"] {
		found = box.created(ctx, o.from, o.to, func() { inPart++ })
	}
	missing := make(map[string]bool)
	for _, id := range o.ids {
		missing[strings.ToLower(id)] = true
	}
	for e, err := range found {
		wanted := len(o.ids) == 0
		for _, id := range append([]string{e.ID}, e.Events...) {
			if id = strings.ToLower(id); missing[id] {
				wanted = true
				delete(missing, id)
			}
		}
		switch {
		case err != nil && !errors.Is(err, errUnreadable):
			return nil, nil, err
		case !wanted:
		case err != nil:
			problems = append(problems, err)
		default:
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b outboxEntry) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.ID, b.ID))
	})
	for _, id := range o.ids {
		if missing[strings.ToLower(id)] {
			delete(missing, strings.ToLower(id))
			problems = append(problems, fmt.Errorf("%s is not set aside in %s: it is published, or still to be sent, or was never there", id, box.place))
		}
	}
	if inPart > 0 {
		problems = append(problems, fmt.Errorf("%s of that time set aside in part, and left: see to what is set aside (--requeue --all), and then do this once more",
			term.Plural(inPart, box.one+" is", box.many+" are")))
	}
	return entries, problems, nil
}

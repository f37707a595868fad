package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/outbox/relay"
)

// listFrom prints the parked events.
func (o *outboxCommand) listFrom(ctx context.Context, s Streams, box *outboxTable) error {
	var t term.Table
	now := time.Now()
	found, unreadable, more := 0, 0, ""
	limit := o.limit
	if limit > 0 {
		limit++ // to know whether there are more
	}
	for e, err := range box.parked(ctx, limit) {
		switch {
		case errors.Is(err, errUnreadable):
			s.sayf("  %s\n", term.Escape(err.Error()))
			unreadable++
			continue
		case err != nil:
			return err
		}
		if o.limit > 0 && found == o.limit {
			more = ", the first found; there are more (--limit 0 lists all)"
			break
		}
		found++
		if !o.json {
			outboxRow(&t, &e, box.items, now)
		} else if err := printJSON(s, e, ""); err != nil {
			return err
		}
	}
	if t.Len() > 0 {
		if _, err := fmt.Fprint(s.Out, t.String()); err != nil {
			return err
		}
	}
	s.sayf("idemsk outbox: %s parked in %s%s\n", term.Plural(found, box.one, box.many), term.Escape(box.place), more)
	if unreadable > 0 {
		s.sayf("idemsk outbox: %s can't be read\n", term.Plural(unreadable, box.one, box.many))
		return errReported
	}
	return nil
}

// The widths of columns that can be long, in runes.
const (
	topicWidth    = 40
	rejectedWidth = 100
)

func outboxRow(t *term.Table, e *outboxEntry, items bool, now time.Time) {
	row := func(id, events string, others ...string) {
		cells := []string{id}
		if items {
			cells = append(cells, events)
		}
		t.Row(append(cells, others...)...)
	}
	if t.Len() == 0 {
		row("ID", "EVENTS", "TOPIC", "KEY", "CREATED", "PARKED", "ATTEMPTS", "FAILURE")
		if items {
			t.Right(1, 6) //nolint:mnd // events, attempts
		} else {
			t.Right(5) //nolint:mnd // attempts
		}
	}
	short := func(text string, width int) string { return term.Cut(term.Escape(text), width) }
	failure := strings.TrimPrefix(e.Failure, relay.ErrRejected.Error()+": ") // a prefix of all failures
	row(e.ID, fmt.Sprint(len(e.Events)), short(e.Topic, topicWidth), short(e.key(), keyWidth), term.Age(e.CreatedAt, now), term.Age(e.ParkedAt, now),
		fmt.Sprint(e.Attempts), short(failure, rejectedWidth))
}

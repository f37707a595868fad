package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/outbox/relay"
)

// listFrom prints the parked events.
func (o *invocation) listFrom(ctx context.Context, s command.Streams, box *Table) error {
	var t term.Table
	now := time.Now()
	found, unreadable, more := 0, 0, ""
	limit := o.limit
	if limit > 0 {
		limit++ // to know whether there are more
	}
	for e, err := range box.Parked(ctx, limit) {
		switch {
		case errors.Is(err, ErrUnreadable):
			s.Sayf("  %s\n", term.Escape(err.Error()))
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
			outboxRow(&t, &e, box.Items, now)
		} else if err := s.JSON(e, ""); err != nil {
			return err
		}
	}
	if t.Len() > 0 {
		if _, err := fmt.Fprint(s.Out, t.String()); err != nil {
			return err
		}
	}
	s.Sayf("idemsk outbox: %s parked in %s%s\n", term.Plural(found, box.One, box.Many),
		term.Escape(box.Place), more)
	if unreadable > 0 {
		s.Sayf("idemsk outbox: %s can't be read\n", term.Plural(unreadable, box.One, box.Many))
		return command.ErrReported
	}
	return nil
}

// The widths of columns that can be long, in runes.
const (
	topicWidth    = 40
	rejectedWidth = 200
)

func outboxRow(t *term.Table, e *Entry, items bool, now time.Time) {
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
	row(e.ID, fmt.Sprint(len(e.Events)), short(e.Topic, topicWidth), short(e.KeyText(), term.KeyWidth),
		term.Age(e.CreatedAt, now), term.Age(e.ParkedAt, now),
		fmt.Sprint(e.Attempts), short(failure, rejectedWidth))
}

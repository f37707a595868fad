package cli

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/idem/store"
)

func listVerb() verb {
	return verb{
		name: "list", args: "", short: "lists stored entries by status, age or key",
		about: `
Lists the stored entries of idempotency keys. It reads the whole store, also if few entries match, and stops at --limit. DynamoDB bills
a scan by the table's size. PostgreSQL reads pages of 1,000 rows. Redis scans all keys of the server.`,
		examples: []string{
			"idemsk list --status FAILED",
			"idemsk list --overdue --before 1h          # STARTED, claimable, and not updated for an hour",
			"idemsk list --key-has pay-42 --limit 0 --json | jq .failure",
		},
		flags: func(fs *flag.FlagSet) action {
			var l list
			l.declare(fs)
			fs.Func("status", "only entries with a `STATUS`: STARTED, COMPLETED or FAILED", func(text string) (err error) {
				l.query.Status, err = store.ParseStatus(text)
				return err
			})
			fs.BoolVar(&l.query.Overdue, "overdue", false, "only entries that are STARTED and whose lease or delay is over")
			fs.Func("before", "only entries last updated before a `TIME` (2026-01-02T15:04:05Z, 2026-01-02), or longer ago than a duration (90m)",
				func(text string) (err error) {
					l.query.Before, err = parseBefore(text, time.Now())
					return err
				})
			fs.BoolVar(&l.query.Leases, "leases", false, "also the leases of partitions, which are left out otherwise")
			fs.StringVar(&l.query.KeyHas, "key-has", "", "only keys that contain `TEXT`")
			fs.IntVar(&l.limit, "limit", defaultLimit, "at most `N` entries; 0 for all")
			fs.BoolVar(&l.json, "json", false, "print each entry as a line of JSON")
			return l.run
		},
	}
}

// defaultLimit is the default of --limit.
const defaultLimit = 100

type list struct {
	storeFlags
	query store.ListQuery
	limit int
	json  bool
}

// parseBefore parses a time, or a duration before now.
func parseBefore(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("want a time like 2026-01-02T15:04:05Z or 2026-01-02 (UTC), or a duration like 90m")
}

func (l *list) run(ctx context.Context, s Streams, args []string) error {
	switch {
	case len(args) > 0:
		return usagef("unexpected argument %q", args[0])
	case l.limit < 0:
		return usagef("--limit is %d: want 0 (all) or more", l.limit)
	}
	st, err := l.open(ctx)
	if err != nil {
		return err
	}
	defer st.close()
	s.sayf("idemsk list: %s\n", st.cost(ctx))
	found, cut, err := l.print(ctx, s, st)
	if err != nil {
		return st.explain(err)
	}
	more := ""
	if cut {
		more = ", the first found; there are more (--limit 0 lists all)"
	}
	s.sayf("idemsk list: %s%s\n", term.Plural(found, "entry", "entries"), more)
	return nil
}

// print prints the entries found. cut reports whether there are more than the limit.
func (l *list) print(ctx context.Context, s Streams, st store.Admin) (found int, cut bool, err error) {
	var t term.Table
	now := time.Now()
	for entry, err := range st.List(ctx, l.query) {
		if err != nil {
			return found, false, err
		}
		if l.limit > 0 && found == l.limit {
			cut = true
			break
		}
		found++
		if l.json {
			if err := printJSON(s, entry, ""); err != nil {
				return found, false, err
			}
			continue
		}
		listRow(&t, &entry, now)
	}
	if t.Len() > 0 {
		_, err = fmt.Fprint(s.Out, t.String())
	}
	return found, cut, err
}

// The widths of columns that can be long, in runes.
const (
	keyWidth     = 60
	failureWidth = 60
)

func listRow(t *term.Table, entry *store.Entry, now time.Time) {
	if t.Len() == 0 {
		t.Row("KEY", "STATUS", "ATTEMPTS", "UPDATED", "SOURCE", "FAILURE")
		t.Right(2) //nolint:mnd // attempts
	}
	failure := ""
	if entry.Failure != nil {
		failure = term.Cut(term.Escape(entry.Failure.Code+": "+entry.Failure.Message), failureWidth)
	}
	t.Row(term.Cut(entry.Key, keyWidth), listStatus(entry, now), fmt.Sprint(entry.Attempts), term.Age(entry.UpdatedAt, now), entry.Source, failure)
}

// listStatus returns the status, with released, overdue or expired if that applies.
func listStatus(entry *store.Entry, now time.Time) string {
	switch {
	case entry.Released():
		return string(entry.Status) + " released"
	case entry.Status == store.StatusStarted && !now.Before(entry.LeaseUntil):
		return string(entry.Status) + " overdue"
	case entry.Status != store.StatusStarted && !now.Before(entry.Expiry):
		return string(entry.Status) + " expired"
	}
	return string(entry.Status)
}

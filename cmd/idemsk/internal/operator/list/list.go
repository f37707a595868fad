// Package list is the verb that lists entries by status, age or key.
package list

import (
	"context"
	_ "embed" // help.txt
	"flag"
	"fmt"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/flags"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/target"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/idem/store"
)

//go:embed help.txt
var help string

// Verb returns the verb list.
func Verb() command.Verb {
	return command.Verb{
		Name: "list", Short: "lists stored entries by status, age or key", Help: help,
		Flags: func(fs *flag.FlagSet) command.Action {
			var l invocation
			l.Declare(fs)
			fs.Func("status", "only entries with a `STATUS`: STARTED, COMPLETED or FAILED",
				func(text string) (err error) {
					l.query.Status, err = store.ParseStatus(text)
					return err
				})
			fs.BoolVar(&l.query.Overdue, "overdue", false,
				"only entries that are STARTED and whose lease or delay is over")
			fs.Func("before", "only entries last updated before a `TIME` (2026-01-02T15:04:05Z, "+
				"2026-01-02), or longer ago than a duration (90m)",
				func(text string) (err error) {
					l.query.Before, err = flags.ParseTime(text, time.Now())
					return err
				})
			fs.StringVar(&l.query.KeyHas, "key-has", "", "only keys that contain `TEXT`")
			fs.IntVar(&l.limit, "limit", flags.DefaultLimit, "at most `N` entries; 0 for all")
			fs.BoolVar(&l.json, "json", false, "print each entry as a line of JSON")
			return l.run
		},
	}
}

// invocation is a run of the verb with its flags.
type invocation struct {
	target.StoreFlags
	query store.ListQuery
	limit int
	json  bool
}

func (l *invocation) run(ctx context.Context, s command.Streams, args []string) error {
	switch {
	case len(args) > 0:
		return command.Unexpected(args)
	case l.limit < 0:
		return command.Usagef("--limit is %d: want 0 (all) or more", l.limit)
	}
	st, err := l.Open(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	s.Sayf("idemsk list: %s\n", st.Cost(ctx))
	found, cut, err := l.print(ctx, s, st)
	if err != nil {
		return st.Explain(err)
	}
	more := ""
	if cut {
		more = ", the first found; there are more (--limit 0 lists all)"
	}
	s.Sayf("idemsk list: %s%s\n", term.Plural(found, "entry", "entries"), more)
	return nil
}

// print prints the entries found. cut reports whether there are more than the limit.
func (l *invocation) print(ctx context.Context, s command.Streams, st store.Admin) (found int, cut bool,
	err error) {
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
			if err := s.JSON(entry, ""); err != nil {
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

func listRow(t *term.Table, entry *store.Entry, now time.Time) {
	if t.Len() == 0 {
		t.Row("KEY", "STATUS", "ATTEMPTS", "UPDATED", "SOURCE", "FAILURE")
		t.Right(2) //nolint:mnd // attempts
	}
	failure := ""
	if entry.Failure != nil {
		failure = command.Failure(entry.Failure.Code + ": " + entry.Failure.Message)
	}
	t.Row(term.Cut(entry.Key, term.KeyWidth), target.Status(entry, now), fmt.Sprint(entry.Attempts),
		term.Age(entry.UpdatedAt, now), entry.Source, failure)
}

// Package get has the verbs for the entry of one key: get shows it, delete deletes it, resolve settles it.
package get

import (
	"context"
	_ "embed" // help.txt
	"errors"
	"flag"
	"fmt"
	"strconv"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/flags"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/target"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/idem/store"
)

//go:embed help.txt
var help string

// Verb returns the verb get.
func Verb() command.Verb {
	return command.Verb{
		Name: "get", Short: "shows the stored entry of a key", Help: help,
		Flags: func(fs *flag.FlagSet) command.Action {
			var g invocation
			g.StoreFlags.Declare(fs)
			g.Keys.Declare(fs, "KEY")
			fs.BoolVar(&g.json, "json", false, "print the entry as JSON")
			return g.run
		},
	}
}

// invocation is a run of the verb with its flags.
type invocation struct {
	target.StoreFlags
	flags.Keys
	json bool
}

func (g *invocation) run(ctx context.Context, s command.Streams, args []string) error {
	entry, st, err := lookUp(ctx, &g.StoreFlags, &g.Keys, args)
	if err != nil {
		return err
	}
	defer st.Close()
	if g.json {
		return s.JSON(entry, "  ")
	}
	_, err = fmt.Fprint(s.Out, recordTable(&entry, time.Now()))
	return err
}

// lookUp opens the store and finds the entry of the one argument. The caller closes the store.
func lookUp(ctx context.Context, f *target.StoreFlags, keys *flags.Keys, args []string) (entry store.Entry,
	st *target.Store, err error) {
	if len(args) != 1 || args[0] == "" {
		return entry, nil, command.Usagef("want one KEY, got %d arguments", len(args))
	}
	key, err := keys.Stored(args[0])
	if err != nil {
		return entry, nil, err
	}
	if st, err = f.Open(ctx); err != nil {
		return entry, nil, err
	}
	entry, err = target.Find(ctx, st, key)
	if errors.Is(err, store.ErrNotFound) && !keys.Plain() && f.Local() { // there a scan costs nothing
		entry, err = target.FindBare(ctx, st, key)
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		err = errors.New(st.NotFound(key))
	case err != nil:
		err = st.Explain(err)
	}
	if err != nil {
		st.Close()
	}
	return entry, st, err
}

func recordTable(entry *store.Entry, now time.Time) string {
	var t term.Table
	row := func(name, value string) {
		if value != "" {
			t.Row(name, value)
		}
	}
	when := func(name string, at time.Time) {
		if !at.IsZero() {
			t.Row(name, term.When(at, now))
		}
	}
	row("key", entry.Key)
	row("status", statusText(entry, now))
	row("token", strconv.FormatInt(entry.Token, 10))
	row("attempts", strconv.Itoa(entry.Attempts))
	row("source", entry.Source)
	row("owner", entry.Owner)
	if entry.Held() { // otherwise the lease has no meaning
		when("lease until", entry.LeaseUntil)
	}
	when("retry at", entry.RetryAt)
	when("created", entry.CreatedAt)
	when("updated", entry.UpdatedAt)
	when("expires", entry.Expiry)
	row("fingerprint", entry.Fingerprint.String())
	row("result", resultText(entry))
	if f := entry.Failure; f != nil {
		row("failure", f.Code)
		when("failed", f.At)
		row("message", f.Message)
	}
	return t.String()
}

// statusText returns the status and what it means at the time now.
func statusText(entry *store.Entry, now time.Time) string {
	text := string(entry.Status)
	switch {
	case entry.Status != store.StatusStarted && !now.Before(entry.Expiry):
		return text + ", expired: counts as absent"
	case entry.Status != store.StatusStarted:
		return text
	case entry.Released():
		return text + ", released for another attempt"
	case now.Before(entry.LeaseUntil):
		return text + ", in flight"
	}
	return text + ", its lease is over: the next delivery claims it"
}

// maxResult is the number of runes shown of a result.
const maxResult = 300

// resultText shows a stored result, shortened.
func resultText(entry *store.Entry) string {
	text, size := target.Result(entry)
	return cutTo(text, size)
}

func cutTo(text string, size int) string {
	if short := term.Cut(text, maxResult); short != text {
		return fmt.Sprintf("%s (%d bytes; --json shows all)", short, size)
	}
	return text
}

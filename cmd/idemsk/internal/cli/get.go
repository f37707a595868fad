package cli

import (
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/idem/store"
)

func getVerb() verb {
	return verb{
		name: "get", args: "KEY", short: "shows the stored entry of a key",
		about: `
Shows the stored entry of an idempotency key. With --topic and --namespace (the consumer's), KEY is the key of a record in that topic.
Without these flags KEY is the stored form, "<namespace>#<topic>#<key>". The entry of a record without a usable key is stored as
"<namespace>@<topic>-<partition>@<offset>@<timestamp>", the lease of a partition as "<namespace>%<topic>-<partition>". If a key is stored
as its SHA-256, give the key itself, or the stored "sha256:…".`,
		examples: []string{
			"idemsk get pay-42 --topic payments --namespace ledger --table idemsk-prod --region eu-central-1",
			"idemsk get 'ledger#payments#pay-42'",
			"idemsk get ledger@payments-0@6200@1767231800000 --json --endpoint-url http://127.0.0.1:4566",
			"IDEMSK_STORE_URL=postgres://idemsk@db/payments idemsk get 'ledger#payments#pay-42'",
		},
		flags: func(fs *flag.FlagSet) action {
			var g get
			g.storeFlags.declare(fs)
			g.keyFlags.declare(fs, "KEY")
			fs.BoolVar(&g.json, "json", false, "print the entry as JSON")
			return g.run
		},
	}
}

type get struct {
	storeFlags
	keyFlags
	json bool
}

func (g *get) run(ctx context.Context, s Streams, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return usagef("want one KEY, got %d arguments", len(args))
	}
	key, err := g.stored(args[0])
	if err != nil {
		return err
	}
	st, err := g.open(ctx)
	if err != nil {
		return err
	}
	defer st.close()
	entry, err := find(ctx, st, key)
	if errors.Is(err, store.ErrNotFound) {
		return errors.New(st.notFound(key))
	}
	if err != nil {
		return st.explain(err)
	}
	if g.json {
		return printJSON(s, entry, "  ")
	}
	_, err = fmt.Fprint(s.Out, recordTable(&entry, time.Now()))
	return err
}

// find gets an entry by its key, or by the key's hash, which may be given itself.
func find(ctx context.Context, st store.Admin, key string) (entry store.Entry, err error) {
	var forms []string
	if store.IsHashed(key) {
		forms = append(forms, key) // as list shows it
	}
	for _, hashed := range []bool{false, true} {
		stored, err := store.Key(key, hashed)
		if err != nil {
			return entry, err
		}
		if !slices.Contains(forms, stored) {
			forms = append(forms, stored)
		}
	}
	for _, stored := range forms {
		if entry, err = st.Get(ctx, stored); !errors.Is(err, store.ErrNotFound) {
			return entry, err
		}
	}
	return entry, store.ErrNotFound
}

// notFound says where a key was not found, and how keys are stored.
func (s *adminStore) notFound(key string) string {
	return fmt.Sprintf("there is no entry for the key %q in %s. Keys are stored as <namespace>#<topic>#<key> (give the "+
		"consumer's --namespace and the --topic; no topic with IDEMSK_KEY_SCOPE=namespace), those of records without a usable key as "+
		"<namespace>@<topic>-<partition>@<offset>@<timestamp>; to look for one: idemsk list --key-has PART", key, s.place)
}

func printJSON(s Streams, v any, indent string) error {
	out, err := term.JSON(v, indent)
	if err != nil {
		return err
	}
	_, err = s.Out.Write(out)
	return err
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
	if entry.Status == store.StatusStarted && !entry.Released() { // otherwise the lease has no meaning
		when("lease until", entry.LeaseUntil)
	}
	when("retry at", entry.RetryAt)
	when("created", entry.CreatedAt)
	when("updated", entry.UpdatedAt)
	when("expires", entry.Expiry)
	if r := entry.Range; r != nil {
		rangeRows(r, row)
	}
	row("fingerprint", entry.Fingerprint.String())
	row("result", resultText(entry))
	if f := entry.Failure; f != nil {
		row("failure", f.Code)
		when("failed", f.At)
		row("message", f.Message)
	}
	return t.String()
}

// rangeRows shows what the lease of a partition keeps of its offsets.
func rangeRows(r *store.Range, row func(name, value string)) {
	if r.End > 0 {
		row("batch", fmt.Sprintf("offsets before %d", r.End))
	}
	if r.Till > 0 {
		row("unsettled", fmt.Sprintf("offsets before %d may have begun: their keys are claimed", r.Till))
	}
}

// statusText returns the status and what it means at the time now.
func statusText(entry *store.Entry, now time.Time) string {
	text := string(entry.Status)
	switch {
	case entry.Status != store.StatusStarted && !now.Before(entry.Expiry):
		return text + ", expired: counts as absent"
	case entry.Status != store.StatusStarted:
		return text
	case entry.Released() && entry.Range != nil:
		return text + ", released"
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
	text, size := wholeResult(entry)
	return cutTo(text, size)
}

// wholeResult returns a stored result as text if it is UTF-8, as hexadecimal otherwise, and its size in bytes.
func wholeResult(entry *store.Entry) (text string, size int) {
	result, err := entry.StoredResult()
	switch {
	case err != nil:
		return strings.TrimPrefix(err.Error(), "idem: "), 0
	case utf8.Valid(result):
		return string(result), len(result)
	}
	return "hex " + hex.EncodeToString(result), len(result)
}

func cutTo(text string, size int) string {
	if short := term.Cut(text, maxResult); short != text {
		return fmt.Sprintf("%s (%d bytes; --json shows all)", short, size)
	}
	return text
}

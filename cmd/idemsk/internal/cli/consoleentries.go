package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/console"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/reconcile"
)

// The bounds of what the page gets at once.
const (
	pageEntries   = 200     // entries in a listing
	pageFailures  = 2_000   // entries in a listing of failures, which the page groups
	mostRead      = 10_000  // entries that are read for a listing: at 1 KB each, 1,250 read units of DynamoDB
	maxPageResult = 1 << 16 // bytes shown of a result
	reportEntries = 500     // entries of each group of a report
)

// Entry implements console.Operator.
func (o *operator) Entry(ctx context.Context, s console.Search) (console.Entry, error) {
	if s.Topic != "" && s.Namespace == "" {
		return console.Entry{}, fmt.Errorf("%w: a topic needs the namespace of its consumer: its IDEMSK_NAMESPACE, else its function's name", console.ErrInput)
	}
	keys := keyFlags{namespace: s.Namespace, topic: s.Topic}
	key := s.Key
	if key != "" {
		var err error
		if key, err = keys.stored(key); err != nil {
			return console.Entry{}, err
		}
	}
	rec, err := find(ctx, o.store, key)
	if errors.Is(err, store.ErrNotFound) {
		return console.Entry{}, &explained{o.store.notFound(key), err}
	}
	if err != nil {
		return console.Entry{}, o.store.explain(err)
	}
	entry := entryOnPage(&rec, time.Now())
	entry.Result, _ = wholeResult(&rec)
	entry.Result = entry.Result[:min(len(entry.Result), maxPageResult)]
	return entry, nil
}

// explained is an error with a text of its own.
type explained struct {
	text string
	err  error
}

func (e *explained) Error() string { return e.text }
func (e *explained) Unwrap() error { return e.err }

// entryOnPage returns what a page shows of an entry, without its result.
func entryOnPage(entry *store.Entry, now time.Time) console.Entry {
	e := console.Entry{
		Key: entry.Key, Status: string(entry.Status), State: console.StateOf(entry.Status, entry.Released(), !now.Before(entry.LeaseUntil)),
		Expired: entry.Status != store.StatusStarted && !now.Before(entry.Expiry),
		Token:   entry.Token, Attempts: entry.Attempts, Source: entry.Source, Owner: entry.Owner, Print: entry.Fingerprint.String(),
		Created: micros(entry.CreatedAt), Updated: micros(entry.UpdatedAt), Expires: micros(entry.Expiry),
	}
	switch e.State {
	case console.Waiting:
		e.Until = micros(entry.RetryAt)
	case console.Held, console.LeaseOver:
		e.Until = micros(entry.LeaseUntil)
	}
	if f := entry.Failure; f != nil {
		e.Code, e.Message, e.FailedAt = f.Code, f.Message, micros(f.At)
	}
	return e
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Entries implements console.Operator. The store yields all entries, and the filter is applied here: so it is known how many were read.
func (o *operator) Entries(ctx context.Context, f console.Filter) (console.Listing, error) {
	out := console.Listing{Entries: []console.Entry{}, Problems: []string{}}
	q, err := query(f)
	if err != nil {
		return out, fmt.Errorf("%w: %w", console.ErrInput, err)
	}
	var list *reading
	if f.Cursor == "" {
		list = o.entries.begin(func(ctx context.Context) iter.Seq2[store.Entry, error] { return o.store.List(ctx, store.ListQuery{}) })
	} else if list, err = o.entries.take(f.Cursor); err != nil {
		return out, err
	}
	now, most := time.Now(), pageEntries
	if f.Failure {
		most = pageFailures
	}
	out.Cursor, err = o.entries.read(ctx, list, func(entry store.Entry, err error) (more bool, failed error) {
		switch {
		case errors.Is(err, store.ErrForeignEntry) && len(out.Problems) < reportEntries:
			out.Problems = append(out.Problems, err.Error())
		case err != nil:
			return false, o.store.explain(err)
		case q.Matches(&entry, now) && (!f.Failure || entry.Failure != nil && entry.Status != store.StatusCompleted):
			out.Entries = append(out.Entries, entryOnPage(&entry, now))
		}
		out.Read++
		return len(out.Entries) < most && out.Read < mostRead, nil
	})
	return out, err
}

// query returns a filter as the query of a store.
func query(f console.Filter) (q store.ListQuery, err error) {
	q = store.ListQuery{KeyHas: f.Has, Overdue: f.Overdue}
	if f.Status != "" {
		if q.Status, err = store.ParseStatus(f.Status); err != nil {
			return q, err
		}
	}
	if f.Before != "" {
		q.Before, err = parseBefore(f.Before, time.Now())
	}
	return q, err
}

// delete deletes an entry whose version was seen.
func (o *operator) delete(ctx context.Context, key string, token int64) (string, error) {
	if key == "" || token == 0 {
		return "", fmt.Errorf("%w: a deletion needs the key and the version that was seen", console.ErrInput)
	}
	err := o.store.Delete(ctx, key, token)
	var changed *store.FencedError
	switch {
	case errors.As(err, &changed):
		return "", &explained{fmt.Sprintf("nothing was deleted: version %d was seen, and the entry is now %s with version %d. Look at it again, then decide",
			token, changed.Current.Status, changed.Current.Token), err}
	case errors.Is(err, store.ErrNotFound):
		return "", &explained{"nothing was deleted: the entry is gone", err}
	case err != nil:
		return "", o.store.explain(err)
	}
	return "The entry is deleted.", nil
}

// Reconcile implements console.Operator.
func (o *operator) Reconcile(ctx context.Context, e console.Export) (console.Report, error) {
	var export iter.Seq2[reconcile.Row, error]
	opt := reconcile.Options{Limit: reportEntries}
	if e.Name != "" {
		export = reconcile.ReadExport(e.Name, strings.NewReader(e.Text), e.Field)
	}
	if keys := (keyFlags{namespace: e.Namespace, topic: e.Topic}); keys.plain() {
		var err error
		if opt.Prefix, err = keys.stored(""); err != nil {
			return console.Report{}, fmt.Errorf("%w: %w", console.ErrInput, err)
		}
	}
	now := time.Now()
	r, err := reconcile.Run(ctx, o.store, export, opt, now)
	if err != nil {
		return console.Report{}, o.store.explain(err)
	}
	out := console.Report{Records: r.Records, Rows: r.Rows, Matched: r.Matched}
	for _, g := range reportGroups(r) {
		group := console.Group{Name: g.what, Count: g.found, Entries: []console.LineItem{}}
		for _, line := range g.recs {
			var item console.LineItem
			if line.row != nil {
				item.Key, item.Line = line.row.Key, line.row.Line
			}
			if line.rec != nil {
				entry := entryOnPage(line.rec, now)
				item.Key, item.Entry = entry.Key, &entry
			}
			group.Entries = append(group.Entries, item)
		}
		out.Groups = append(out.Groups, group)
	}
	return out, nil
}

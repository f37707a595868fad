package console

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	page "github.com/idemsk/idemsk/cmd/idemsk/internal/console"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/flags"
	reconcileverb "github.com/idemsk/idemsk/cmd/idemsk/internal/operator/reconcile"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/target"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/reconcile"
)

// The bounds of what the page gets at once.
const (
	pageEntries   = 200     // entries in a listing
	pageFailures  = 2_000   // entries in a listing of failures, which the page groups
	mostRead      = 10_000  // entries that are read for a listing: at 1 KB each, 1,250 read units of DynamoDB
	maxResult     = 1 << 16 // bytes shown of a result
	reportEntries = 500     // entries of each group of a report
)

// Entry implements page.Operator.
func (o *operator) Entry(ctx context.Context, s page.Search) (page.Entry, error) {
	if s.Topic != "" && s.Namespace == "" {
		return page.Entry{}, fmt.Errorf("%w: a topic needs the namespace of its consumer: its "+
			"IDEMSK_NAMESPACE, else its function's name", page.ErrInput)
	}
	keys := flags.Keys{Namespace: s.Namespace, Topic: s.Topic}
	key := s.Key
	if key != "" {
		var err error
		if key, err = keys.Stored(key); err != nil {
			return page.Entry{}, err
		}
	}
	stored, err := target.Find(ctx, o.store, key)
	if errors.Is(err, store.ErrNotFound) {
		return page.Entry{}, &explained{o.store.NotFound(key), err}
	}
	if err != nil {
		return page.Entry{}, o.store.Explain(err)
	}
	entry := entryOnPage(&stored, time.Now())
	entry.Result, _ = target.Result(&stored)
	entry.Result = entry.Result[:min(len(entry.Result), maxResult)]
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
func entryOnPage(entry *store.Entry, now time.Time) page.Entry {
	e := page.Entry{
		Key: entry.Key, Status: string(entry.Status),
		State:   page.StateOf(entry.Status, entry.Released(), !now.Before(entry.LeaseUntil)),
		Expired: entry.Status != store.StatusStarted && !now.Before(entry.Expiry),
		Token:   entry.Token, Attempts: entry.Attempts, Source: entry.Source, Owner: entry.Owner,
		Print:   entry.Fingerprint.String(),
		Created: micros(entry.CreatedAt), Updated: micros(entry.UpdatedAt), Expires: micros(entry.Expiry),
	}
	switch e.State {
	case page.Waiting:
		e.Until = micros(entry.RetryAt)
	case page.Held, page.LeaseOver:
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

// Entries implements page.Operator. The store yields all entries, and the filter is applied here: so it is
// known how many were read.
func (o *operator) Entries(ctx context.Context, f page.Filter) (page.Listing, error) {
	out := page.Listing{Entries: []page.Entry{}, Problems: []string{}}
	q, err := query(f)
	if err != nil {
		return out, fmt.Errorf("%w: %w", page.ErrInput, err)
	}
	var list *reading
	if f.Cursor == "" {
		list = o.entries.begin(func(ctx context.Context) iter.Seq2[store.Entry, error] {
			return o.store.List(ctx, store.ListQuery{})
		})
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
			return false, o.store.Explain(err)
		case q.Matches(&entry, now) && (!f.Failure || entry.Failure != nil &&
			entry.Status != store.StatusCompleted):
			out.Entries = append(out.Entries, entryOnPage(&entry, now))
		}
		out.Read++
		return len(out.Entries) < most && out.Read < mostRead, nil
	})
	return out, err
}

// query returns a filter as the query of a store.
func query(f page.Filter) (q store.ListQuery, err error) {
	q = store.ListQuery{KeyHas: f.Has, Overdue: f.Overdue}
	if f.Status != "" {
		if q.Status, err = store.ParseStatus(f.Status); err != nil {
			return q, err
		}
	}
	if f.Before != "" {
		q.Before, err = flags.ParseTime(f.Before, time.Now())
	}
	return q, err
}

// delete deletes an entry whose version was seen.
func (o *operator) delete(ctx context.Context, key string, token int64) (string, error) {
	if key == "" || token == 0 {
		return "", fmt.Errorf("%w: a deletion needs the key and the version that was seen", page.ErrInput)
	}
	err := o.store.Delete(ctx, key, token)
	var changed *store.FencedError
	switch {
	case errors.As(err, &changed):
		return "", &explained{fmt.Sprintf("nothing was deleted: version %d was seen, and the entry is now "+
			"%s with version %d. Look at it again, then decide",
			token, changed.Current.Status, changed.Current.Token), err}
	case errors.Is(err, store.ErrNotFound):
		return "", &explained{"nothing was deleted: the entry is gone", err}
	case err != nil:
		return "", o.store.Explain(err)
	}
	return "The entry is deleted.", nil
}

// Reconcile implements page.Operator.
func (o *operator) Reconcile(ctx context.Context, e page.Export) (page.Report, error) {
	var export iter.Seq2[reconcile.Row, error]
	opt := reconcile.Options{Limit: reportEntries}
	if e.Name != "" {
		export = reconcile.ReadExport(e.Name, strings.NewReader(e.Text), e.Field)
	}
	if keys := (flags.Keys{Namespace: e.Namespace, Topic: e.Topic}); keys.Plain() {
		var err error
		if opt.Prefix, err = keys.Stored(""); err != nil {
			return page.Report{}, fmt.Errorf("%w: %w", page.ErrInput, err)
		}
	}
	now := time.Now()
	r, err := reconcile.Run(ctx, o.store, export, opt, now)
	if err != nil {
		return page.Report{}, o.store.Explain(err)
	}
	out := page.Report{Records: r.Records, Rows: r.Rows, Matched: r.Matched}
	for _, g := range reconcileverb.Groups(r) {
		group := page.Group{Name: g.What, Count: g.Found, Entries: []page.LineItem{}}
		for _, line := range g.Lines {
			var item page.LineItem
			if line.Row != nil {
				item.Key, item.Line = line.Row.Key, line.Row.Line
			}
			if line.Entry != nil {
				entry := entryOnPage(line.Entry, now)
				item.Key, item.Entry = entry.Key, &entry
			}
			group.Entries = append(group.Entries, item)
		}
		out.Groups = append(out.Groups, group)
	}
	return out, nil
}

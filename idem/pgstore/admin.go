package pgstore

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/network/silence"
)

// listPage is the number of rows that List reads per statement.
const listPage = 1000

// adminTimeout is the RoundTripTimeout of List and Prune, which may read many rows before they find one.
const adminTimeout = 5 * time.Minute

// Get implements store.Admin with one read.
func (s *Store) Get(ctx context.Context, key string) (store.Entry, error) {
	found, there, err := s.lookAtOne(ctx, key)
	if err != nil {
		return store.Entry{}, s.explain("get", key, err)
	}
	if !there {
		return store.Entry{}, fmt.Errorf("pgstore: get from table %s: %w: %q", s.table, store.ErrNotFound,
			key)
	}
	return found.entry, nil
}

// List implements store.Admin. It yields the entries in the order of their keys. It reads the whole table in
// pages of 1,000 rows, unless the caller stops. Each page is a short transaction, so that List does not delay
// VACUUM.
func (s *Store) List(ctx context.Context, q store.ListQuery) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		for last, more := "", true; more; {
			page, err := s.page(ctx, q, last)
			if err != nil {
				yield(store.Entry{}, s.complain("list", err))
				return
			}
			for i := range page {
				if q.Matches(&page[i].entry, page[i].now) && !yield(page[i].entry, nil) {
					return
				}
			}
			if more = len(page) == listPage; more {
				last = page[len(page)-1].entry.Key
			}
		}
	}
}

func (s *Store) page(ctx context.Context, q store.ListQuery, last string) (page []sighting, err error) {
	status := q.Status
	if q.Overdue && status == "" {
		status = store.StatusStarted
	}
	var before *time.Time
	if !q.Before.IsZero() {
		before = &q.Before
	}
	err = s.send(ctx, adminTimeout, func(w *silence.Watch, conn *pgx.Conn) error {
		rows, err := conn.Query(w.Context(), s.sql.list, escape(last), string(status), before, listPage)
		if err != nil {
			return err
		}
		page, err = pgx.AppendRows(page[:0], rows, func(row pgx.CollectableRow) (sighting, error) {
			w.Heard()
			found, err := readSighting(row)
			return found, cmp.Or(err, found.foreign)
		})
		return err
	})
	return slices.Clip(page), err
}

// Delete implements store.Admin with one conditional delete, and one read if that deletes nothing. If the
// reply is lost, the delete is retried. The first attempt may have deleted the entry: Delete then returns
// ErrNotFound.
func (s *Store) Delete(ctx context.Context, key string, token int64) error {
	removed, err := s.execute(ctx, s.limit, s.sql.remove, escape(key), token)
	if err != nil {
		return s.explain("delete", key, err)
	}
	if removed > 0 {
		return nil
	}
	found, there, err := s.lookAtOne(ctx, key)
	if err != nil {
		return s.explain("delete", key, err)
	}
	if !there {
		return fmt.Errorf("pgstore: delete from table %s: %w: %q", s.table, store.ErrNotFound, key)
	}
	return fmt.Errorf("pgstore: delete: %w", &store.FencedError{Key: key, Token: token, Current: found.entry})
}

// Prune deletes up to limit expired entries, the oldest first, and returns their number. An entry is deleted
// up to a lease, and the delay of a release, after it has expired. It is one short transaction that locks the
// deleted rows only and skips rows that are locked. Call it again until it returns less than limit. 1,000 is
// a good limit.
func (s *Store) Prune(ctx context.Context, limit int) (int, error) {
	if limit < 1 {
		return 0, fmt.Errorf("pgstore: prune: %w: the limit is %d: want 1 or more", idem.ErrInvalidConfig,
			limit)
	}
	n, err := s.execute(ctx, adminTimeout, s.sql.prune, limit)
	if err != nil {
		return 0, s.complain("prune", err)
	}
	return int(n), nil
}

// PruneAll calls Prune until no expired entry is left, and returns the number of deleted entries, also with
// an error.
func (s *Store) PruneAll(ctx context.Context, limit int) (total int, err error) {
	for n := limit; err == nil && n == limit; total += n {
		n, err = s.Prune(ctx, limit)
	}
	return total, err
}

// execute executes a statement with retries, and returns the number of rows that its last execution affected.
func (s *Store) execute(ctx context.Context, limit time.Duration, sql string, args ...any) (rows int64,
	err error) {
	err = s.send(ctx, limit, func(w *silence.Watch, conn *pgx.Conn) error {
		tag, err := conn.Exec(w.Context(), sql, args...)
		rows = tag.RowsAffected()
		return err
	})
	return rows, err
}

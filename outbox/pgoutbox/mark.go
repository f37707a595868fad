package pgoutbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/idemsk/idemsk/internal/pg/pgtrip"
	"github.com/idemsk/idemsk/outbox"
)

// row is an event in the table. Its ID may recur in another partition of the table, its seq does not.
type row struct {
	outbox.Event
	seq int64
}

// mark is what became of an event.
type mark struct {
	*row
	failure string // why it was rejected, empty if it was published
}

// rows name rows, as arguments of statements.
type rows struct {
	ids  []string
	seqs []int64
}

func (r *rows) add(of *row) { r.ids, r.seqs = append(r.ids, of.ID), append(r.seqs, of.seq) }

// longestFailure is the maximum number of bytes of a failure in the table.
const longestFailure = 1000

// failureText is the text of an error in the table. It is ASCII, which each encoding of a database has.
func failureText(err error) string {
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, err.Error())
	return text[:min(len(text), longestFailure)]
}

// mark marks events. If PostgreSQL refuses to mark some of them, because of what the table's owner has added to
// the table or of the row itself, the others are marked. It returns their number and the rejections among them.
func (w *worker) mark(ctx context.Context, tx pgx.Tx, marks []mark) (n int, charged []rejection, err error) {
	if charged, err = w.markAll(ctx, tx, marks); err != nil && refusesRow(err) {
		marks, charged, err = w.markEach(ctx, tx, marks)
	}
	if err != nil {
		return 0, nil, err
	}
	w.unmarked.forget(marks)
	return len(marks), charged, nil
}

// eachMark is a mark as an argument of publishEach and removeEach.
type eachMark struct {
	N       int     `json:"n"`
	ID      string  `json:"id"`
	Seq     int64   `json:"seq"`
	Failure *string `json:"failure"`
}

// markEach marks events one after another, in one statement, each behind a savepoint. It returns those that
// were marked.
func (w *worker) markEach(ctx context.Context, tx pgx.Tx, marks []mark) (marked []mark, charged []rejection, err error) {
	each := make([]eachMark, len(marks))
	for i, m := range marks {
		each[i] = eachMark{N: i, ID: m.ID, Seq: m.seq}
		if m.failure != "" {
			each[i].Failure = &m.failure
		}
	}
	args, err := json.Marshal(map[string]any{"marks": each, "attempts": w.cfg.MaxAttempts,
		"first": w.cfg.RetryDelay.Seconds(), "longest": w.cfg.MaxRetryDelay.Seconds()})
	if err != nil {
		return nil, nil, err
	}
	var result struct {
		Charged []rejection
		Refused map[int]string
	}
	if err := w.askIn(ctx, func(ctx context.Context) error { return w.performEach(ctx, tx, string(args), &result) }); err != nil {
		return nil, nil, err
	}
	for i := range marks {
		if why, refused := result.Refused[i]; refused {
			w.refuse(&marks[i], why)
		} else {
			marked = append(marked, marks[i])
		}
	}
	return marked, result.Charged, nil
}

// performEach performs publishEach or removeEach in the place of what was refused.
func (w *worker) performEach(ctx context.Context, tx pgx.Tx, args string, result any) error {
	sql := w.outbox.sql.publishEach
	if w.cfg.Retention < 0 {
		sql = w.outbox.sql.removeEach
	}
	if _, err := tx.Exec(ctx, `ROLLBACK TO SAVEPOINT marks`); err != nil {
		return err
	}
	var batch pgx.Batch
	batch.Queue(`SELECT set_config('idemsk.marks', $1, true)`, args)
	batch.Queue(sql)
	batch.Queue(`SELECT current_setting('idemsk.marks')::jsonb`).QueryRow(func(row pgx.Row) error { return row.Scan(result) })
	return tx.SendBatch(ctx, &batch).Close()
}

// markAll marks events with one round trip, behind a savepoint.
func (w *worker) markAll(ctx context.Context, tx pgx.Tx, marks []mark) (charged []rejection, err error) {
	var batch pgx.Batch
	batch.Queue(`SAVEPOINT marks`)
	var published, rejected rows
	var failures []string
	for _, m := range marks {
		if m.failure == "" {
			published.add(m.row)
			continue
		}
		rejected.add(m.row)
		failures = append(failures, m.failure)
	}
	if len(published.ids) > 0 {
		sql := w.outbox.sql.publish
		if w.cfg.Retention < 0 {
			sql = w.outbox.sql.remove
		}
		batch.Queue(sql, published.ids, published.seqs).Exec(func(tag pgconn.CommandTag) error {
			return changed(int(tag.RowsAffected()), len(published.ids))
		})
	}
	if len(rejected.ids) > 0 {
		batch.Queue(w.outbox.sql.reject, rejected.ids, rejected.seqs, failures,
			w.cfg.MaxAttempts, w.cfg.RetryDelay.Seconds(), w.cfg.MaxRetryDelay.Seconds()).
			Query(func(rows pgx.Rows) (err error) {
				charged, err = pgx.CollectRows(rows, pgx.RowToStructByPos[rejection])
				return cmp.Or(err, changed(len(charged), len(rejected.ids)))
			})
	}
	err = w.askIn(ctx, func(ctx context.Context) error { return tx.SendBatch(ctx, &batch).Close() })
	return charged, err
}

var errUnchanged = errors.New(unchanged)

// changed returns an error if fewer rows were changed than there are marks. Their rows are locked, so that no
// other session has deleted them.
func changed(n, marks int) error {
	if n < marks {
		return errUnchanged
	}
	return nil
}

// refusesRow reports whether the server refused a statement because of what is in a row or what is on the table.
func refusesRow(err error) bool {
	var said *pgconn.PgError
	if !errors.As(err, &said) {
		return errors.Is(err, errUnchanged)
	}
	return !strings.Contains(ofServer, "'"+said.Code[:2]+"'") && pgtrip.PoolerHint(err) == ""
}

// refuse reports an event that PostgreSQL refuses to mark. It stays pending, and holds back the later events
// of its key if it was rejected. If it was published, this relay does not send it again.
func (w *worker) refuse(m *mark, why string) {
	w.unmarked.note(m)
	outcome := cmp.Or(m.failure, "it was published")
	err := fmt.Errorf("marking event %s of table %s, to topic %.64q (%s): %s", m.ID, w.outbox.table, m.Topic, outcome, why)
	w.failures.Add(1)
	_ = w.failure(err)
	w.notices.note(slog.LevelError, "PostgreSQL refuses to mark events of the outbox: repair the rows, or what is on the table",
		rejection{ID: m.ID, Topic: fmt.Sprintf("%.64s", m.Topic), Failure: err.Error()})
}

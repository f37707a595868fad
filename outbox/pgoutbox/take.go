package pgoutbox

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/idemsk/idemsk/internal/silence"
	"github.com/idemsk/idemsk/outbox"
)

// maxLooks bounds how often the head of shards is read that is full of keys which are held. With batches of the default size that
// is for a thousand such keys in a shard; if there are more, those behind them wait as well.
const maxLooks = 16

// aggregate is what is kept in order.
type aggregate struct{ topic, key string }

// take returns what is at the head of some shards, in order. Nobody else has them until tx ends. Rows that are no events are
// rejected, and what is behind them is left.
func (w *worker) take(ctx context.Context, tx pgx.Tx, out *outcome) ([]outbox.Event, error) {
	tried := []int32{} // not nil, which is NULL
	for {
		var mine []int32
		err := w.ask(ctx, func(watch *silence.Watch, _ *pgx.Conn) error {
			rows, err := tx.Query(watch.Context(), w.outbox.sql.busy, w.class, shardsAtOnce, tried)
			if err != nil {
				return err
			}
			mine, err = pgx.CollectRows(rows, pgx.RowTo[int32])
			return err
		})
		if err != nil || len(mine) == 0 {
			return nil, err
		}
		events, err := w.head(ctx, tx, mine, out)
		if err != nil || len(events)+len(out.rejected) > 0 {
			return events, err
		}
		tried = append(tried, mine...) // there is nothing but what somebody else has locked, and what is behind it
	}
}

// head reads the head of shards. Of a key of which another session has locked an event, what is behind that is left alone: it
// must not go first. Where there is such a key, the head is read again without it, so that it does not fill the head.
func (w *worker) head(ctx context.Context, tx pgx.Tx, shards []int32, out *outcome) (events []outbox.Event, err error) {
	var topics []string
	var keys [][]byte
	limit := max(1, w.cfg.Batch/len(shards))
	for n := 1; ; n++ {
		// Another statement than busy, which sees what was committed before the locks were given up.
		sql, args := w.outbox.sql.take, []any{shards, limit}
		if n > 1 {
			sql, args = w.outbox.sql.beside, append(args, topics, keys)
		}
		b := batch{held: make(map[aggregate]bool), behind: make(map[aggregate]bool)}
		if err := w.ask(ctx, func(watch *silence.Watch, _ *pgx.Conn) error { return b.read(watch, tx, sql, args...) }); err != nil {
			return nil, err
		}
		if len(b.behind) == 0 || n == maxLooks {
			out.rejected, out.failures = b.rejected, b.failures
			return append(events, b.events...), nil
		}
		for of := range b.behind {
			topics, keys = append(topics, of.topic), append(keys, []byte(of.key))
		}
		for _, e := range b.events {
			if e.Key != nil && b.behind[aggregate{e.Topic, string(e.Key)}] { // it is ahead of what is held
				events = append(events, e)
			}
		}
	}
}

// batch is what was read from the head of shards.
type batch struct {
	outcome
	events []outbox.Event
	held   map[aggregate]bool // there is an event that could not be taken
	behind map[aggregate]bool // those of them of which a later one was
}

func (b *batch) read(watch *silence.Watch, tx pgx.Tx, sql string, args ...any) error {
	rows, err := tx.Query(watch.Context(), sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	rejected := make(map[aggregate]bool)
	for size := 0; size < bytesAtOnce && rows.Next(); {
		watch.Heard()
		var e outbox.Event
		var id *string
		var headers []byte
		if err := rows.Scan(&id, &e.Topic, &e.Key, &e.Value, &headers, nil); err != nil {
			return err
		}
		of := aggregate{e.Topic, string(e.Key)}
		switch {
		case id == nil:
			b.held[of] = true
			continue
		case e.Key == nil: // in no order
		case b.held[of]:
			b.behind[of] = true
			continue
		case rejected[of]:
			continue
		}
		e.ID = *id
		if e.Headers, err = decodeHeaders(headers); err != nil {
			b.reject(e.ID, err)
			rejected[of] = true
			continue
		}
		b.events = append(b.events, e)
		size += e.Size()
	}
	rows.Close()
	return rows.Err()
}

package pgoutbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/idemsk/idemsk/internal/network/silence"
	"github.com/idemsk/idemsk/outbox/relay"
)

// maxLooks is the maximum number of reads of shards whose heads are full of blocked keys. With the default
// batch size it covers a thousand such keys in a shard; with more of them, the keys behind wait too.
const maxLooks = 16

// aggregate identifies events that are kept in order.
type aggregate struct{ topic, key string }

// take returns the events at the heads of some shards, in order, and locks them until tx ends. It leaves out
// paused topics, and rows that can't be marked. Rows that can't be decoded, or are too large, are rejected, and
// the events behind them wait.
func (w *worker) take(ctx context.Context, tx pgx.Tx, but leftOut, out *outcome) ([]row, error) {
	tried := []int32{} // not nil, which is NULL
	for {
		var mine []int32
		err := w.ask(ctx, func(watch *silence.Watch, _ *pgx.Conn) error {
			rows, err := tx.Query(watch.Context(), w.outbox.sql.busy, w.class, shardsAtOnce, tried, but.paused)
			if err != nil {
				return err
			}
			mine, err = pgx.CollectRows(rows, pgx.RowTo[int32])
			return err
		})
		if err != nil || len(mine) == 0 {
			return nil, err
		}
		events, err := w.head(ctx, tx, mine, but, out)
		if err != nil || len(events)+len(out.marks) > 0 {
			return events, err
		}
		tried = append(tried, mine...) // all their events are locked, or wait for locked ones
	}
}

// head reads the heads of shards. If another session has locked an event, the later events of its key must
// wait. head then reads again without these keys, so that they do not fill the batch.
func (w *worker) head(ctx context.Context, tx pgx.Tx, shards []int32, but leftOut, out *outcome) (
	events []row, err error) {
	limit := max(1, w.cfg.Batch/len(shards))
	for n := 1; ; n++ {
		// This statement must be separate from busy, so that it sees the commits made before the locks were
		// released.
		b := batch{held: make(map[aggregate]bool), behind: make(map[aggregate]bool)}
		if err := w.ask(ctx, func(watch *silence.Watch, _ *pgx.Conn) error {
			return b.read(watch, tx, w.outbox.sql.take, shards, limit, but.paused, but.seqs, but.topics, but.keys)
		}); err != nil {
			return nil, err
		}
		if len(b.behind) == 0 || n == maxLooks {
			out.marks = b.marks
			return append(events, b.events...), nil
		}
		for of := range b.behind {
			but.add(of)
		}
		for _, e := range b.events {
			if e.Key != nil && b.behind[aggregate{e.Topic, string(e.Key)}] { // it precedes the locked event
				events = append(events, e)
			}
		}
	}
}

// batch is the result of a read.
type batch struct {
	outcome
	events []row
	held   map[aggregate]bool // one of its events could not be taken
	behind map[aggregate]bool // the held ones of which a later event was read
}

func (b *batch) read(watch *silence.Watch, tx pgx.Tx, sql string, args ...any) error {
	found, err := tx.Query(watch.Context(), sql, args...)
	if err != nil {
		return err
	}
	defer found.Close()
	rejected := make(map[aggregate]bool)
	for size := 0; size < bytesAtOnce && found.Next(); {
		watch.Heard()
		var e row
		var id *string
		var headers []byte
		var stored int64
		if err := found.Scan(&id, &e.Topic, &e.Key, &e.Value, &headers, &e.seq, &stored); err != nil {
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
		if e.Headers, err = decodeHeaders(headers); err == nil && stored > relay.MaxSize {
			err = fmt.Errorf("it has %d bytes; the maximum is %d", stored, relay.MaxSize)
		}
		if err != nil {
			b.reject(&e, err)
			if e.Key != nil {
				rejected[of] = true
			}
			continue
		}
		b.events = append(b.events, e)
		size += e.Size()
	}
	found.Close()
	return found.Err()
}

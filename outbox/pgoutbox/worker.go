package pgoutbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/idemsk/idemsk/internal/network/silence"
	"github.com/idemsk/idemsk/internal/pg/pgtrip"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/relay"
)

const (
	shardsAtOnce = 16       // of 64 that a worker takes, so that four workers can run
	bytesAtOnce  = 16 << 20 // size of a batch, which may exceed it by one event
	firstPause   = 50 * time.Millisecond
	longestPause = 5 * time.Second
)

// work sends events until ctx ends. It opens a new connection after each failure.
func (r *Relay) work(ctx context.Context) {
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, longestPause) {
		worked, err := r.connected(ctx)
		err = fmt.Errorf("%w%s", err, hint(err)) // it is not nil
		if ctx.Err() != nil {
			return
		}
		if worked {
			pause = firstPause
		}
		r.failures.Add(1)
		_ = r.failure(err)
		r.cfg.Logger.WarnContext(ctx, "the relay failed; it retries", "pause", pause, "error", err)
		wait(ctx, pause)
		// No transaction is open while Kafka is unavailable.
		for ctx.Err() == nil && errors.Is(err, relay.ErrUnavailable) {
			if err = r.sender.Ping(ctx); err != nil {
				wait(ctx, pause)
			}
		}
	}
}

// wait waits for d or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// worker sends events on one connection.
type worker struct {
	*Relay
	conn    *pgx.Conn
	class   int32 // of the table's advisory locks
	listens bool
}

// connected sends events until ctx ends or an error occurs. Its connection leaves the pool, because it
// listens and holds locks.
func (r *Relay) connected(ctx context.Context) (worked bool, err error) {
	pooled, err := r.pool.Acquire(ctx)
	if err != nil {
		return false, err
	}
	w := &worker{Relay: r, conn: pooled.Hijack()}
	defer w.close()
	if err := w.prepare(ctx); err != nil {
		return false, err
	}
	for {
		n, err := w.round(ctx)
		if err == nil && n == 0 {
			err = w.idle(ctx)
		}
		if err != nil {
			return worked, err
		}
		worked = true
	}
}

// prepare looks for the table, and makes the connection listen. Behind a pooler it does not: a pooler may give
// each transaction another connection, which would keep the session's LISTEN and locks. A pooler tells the
// client another process ID than the server's, because it also answers requests to cancel.
func (w *worker) prepare(ctx context.Context) error {
	var oid *uint32
	var process uint32
	err := w.ask(ctx, func(watch *silence.Watch, conn *pgx.Conn) error {
		return conn.QueryRow(watch.Context(), w.outbox.sql.table, w.outbox.table.SQL("")).Scan(&oid, &process)
	})
	switch {
	case err != nil:
		return err
	case oid == nil:
		return fmt.Errorf("%w: %s", ErrNoTable, w.outbox.table)
	}
	w.class = int32(*oid)
	if w.listens = process == w.conn.PgConn().PID(); w.listens {
		return w.execute(ctx, fmt.Sprintf(`LISTEN outbox_%d`, *oid))
	}
	w.pooled.Do(func() {
		w.cfg.Logger.InfoContext(ctx, "the connection goes through a pooler: the relay reads at intervals",
			"interval", w.cfg.PollInterval)
	})
	return nil
}

// close closes the connection. If the connection is broken, pgx would wait up to 15 s.
func (w *worker) close() {
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	_ = w.conn.Close(ctx) // it may be broken
	_ = w.conn.PgConn().Conn().Close()
}

// ask performs an exchange with PostgreSQL. It fails if PostgreSQL is silent for RoundTripTimeout.
func (w *worker) ask(ctx context.Context, f pgtrip.Exchange) error {
	return w.pool.On(ctx, w.cfg.RoundTripTimeout, w.conn, f)
}

// askIn is ask for an exchange that needs its context alone.
func (w *worker) askIn(ctx context.Context, f func(ctx context.Context) error) error {
	return w.ask(ctx, func(watch *silence.Watch, _ *pgx.Conn) error { return f(watch.Context()) })
}

func (w *worker) execute(ctx context.Context, sql string, args ...any) error {
	return w.ask(ctx, func(watch *silence.Watch, conn *pgx.Conn) error {
		_, err := conn.Exec(watch.Context(), sql, args...)
		return err
	})
}

// idle waits until there may be new events.
func (w *worker) idle(ctx context.Context) error {
	if !w.listens {
		wait(ctx, w.cfg.PollInterval)
		return ctx.Err()
	}
	if err := w.execute(ctx, `SELECT pg_advisory_lock_shared($1, -1)`, w.class); err != nil {
		return err
	}
	// Inserts notify from here on. An earlier insert may not have notified, so read once more.
	n, err := w.round(ctx)
	if err == nil && n == 0 {
		err = w.notified(ctx)
	}
	if err != nil {
		return err
	}
	return w.execute(ctx, `SELECT pg_advisory_unlock_shared($1, -1)`, w.class)
}

// notified waits up to PollInterval for a notification.
func (w *worker) notified(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, w.cfg.PollInterval)
	defer cancel()
	_, err := w.conn.WaitForNotification(within)
	if err != nil && within.Err() == nil {
		return err
	}
	cancel()
	for err == nil { // discard the other notifications
		_, err = w.conn.WaitForNotification(within)
	}
	return ctx.Err()
}

// round locks shards that no other worker holds, and sends and marks the events at their heads. It returns
// the number of events published or rejected. If others failed because Kafka is unavailable, it returns
// relay.ErrUnavailable; if Kafka answers, it pauses their topics. The transaction is idle while events are sent
// to Kafka. PostgreSQL ends it after IdleLimit; otherwise a failed host would hold its shards until TCP detects
// the failure.
func (w *worker) round(ctx context.Context) (n int, err error) {
	begin := fmt.Sprintf(`BEGIN; SET LOCAL idle_in_transaction_session_timeout = %d; SET CONSTRAINTS ALL IMMEDIATE`,
		w.cfg.IdleLimit.Milliseconds()) // a constraint that is deferred would undo all marks at the commit
	var tx pgx.Tx
	err = w.ask(ctx, func(watch *silence.Watch, conn *pgx.Conn) (err error) {
		tx, err = conn.BeginTx(watch.Context(), pgx.TxOptions{BeginQuery: begin})
		return err
	})
	if err != nil {
		return 0, err
	}
	settling := context.WithoutCancel(ctx)
	defer func() { _ = w.askIn(settling, tx.Rollback) }() // nothing to roll back after a commit
	var out outcome
	paused, tried := w.pauses.begin()
	defer func() { w.pauses.end(tried, out.available) }()
	but := w.unmarked.leaveOut()
	but.paused = paused
	taken, err := w.take(ctx, tx, but, &out)
	if err != nil || len(taken)+len(out.marks) == 0 {
		return 0, err
	}
	var unsent []*row
	var events []outbox.Event
	for i := range taken {
		if e := &taken[i]; w.unmarked.wasPublished(e.seq) {
			out.marks = append(out.marks, mark{row: e})
		} else {
			unsent, events = append(unsent, e), append(events, e.Event)
		}
	}
	out.add(unsent, w.sender.Send(ctx, events))
	if n, err = w.settle(settling, tx, &out); err != nil {
		return 0, err
	}
	return n, w.pause(ctx, tried, &out)
}

// pause pauses the topics that were unavailable in a batch. It returns an error if Kafka does not answer
// either.
func (w *worker) pause(ctx context.Context, tried string, out *outcome) error {
	answers := false
	for topic, err := range out.unavailable {
		if answers = answers || ctx.Err() == nil && w.sender.Ping(ctx) == nil; !answers {
			return err
		}
		length, begun := w.pauses.extend(topic, topic == tried)
		if !begun {
			continue
		}
		w.failures.Add(1)
		_ = w.failure(err)
		w.cfg.Logger.WarnContext(ctx, "a topic of the outbox is unavailable, and Kafka answers: its events wait, those of other topics are sent",
			"topic", fmt.Sprintf("%.64s", topic), "pause", length, "error", err)
	}
	return nil
}

// outcome is the result of a batch: the published and the rejected events, the topics of which one was
// published or rejected, and those that were unavailable, with the first error. Other events are unchanged.
type outcome struct {
	marks       []mark
	available   map[string]bool
	unavailable map[string]error
}

func (o *outcome) add(taken []*row, errs []error) {
	o.available, o.unavailable = make(map[string]bool), make(map[string]error)
	for i, err := range errs {
		topic := taken[i].Topic
		switch {
		case err == nil:
			o.marks = append(o.marks, mark{row: taken[i]})
			o.available[topic] = true
		case errors.Is(err, relay.ErrRejected):
			o.reject(taken[i], err)
			o.available[topic] = true
		case !errors.Is(err, relay.ErrHeldBack):
			o.unavailable[topic] = cmp.Or(o.unavailable[topic], err)
		}
	}
	for topic := range o.unavailable {
		delete(o.available, topic)
	}
}

func (o *outcome) reject(of *row, err error) {
	o.marks = append(o.marks, mark{row: of, failure: failureText(err)})
}

// settle marks published and rejected events and commits. It returns the number of marked events.
func (w *worker) settle(ctx context.Context, tx pgx.Tx, out *outcome) (n int, err error) {
	n, charged, err := w.mark(ctx, tx, out.marks)
	if err == nil {
		err = w.askIn(ctx, tx.Commit)
	}
	if err != nil {
		return 0, err
	}
	w.published.Add(int64(n - len(charged)))
	w.rejected.Add(int64(len(charged)))
	for _, r := range charged {
		level, what := slog.LevelWarn, "events of the outbox are rejected: they are retried"
		if r.Parked {
			level, what = slog.LevelError, "events of the outbox are rejected: they are parked (idemsk outbox lists them)"
			w.parked.Add(1)
		}
		w.notices.note(level, what, r)
	}
	w.notices.flush(ctx, false)
	return n, nil
}

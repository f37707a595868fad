package pgoutbox

import (
	"context"
	"fmt"
	"iter"
	"time"
)

// SetAside is an event that was given up, and stays until somebody requeues or deletes it. Its value and headers are left out:
// they are of no use to those who look after the outbox, and may be personal data.
type SetAside struct {
	ID, Topic string
	Key       []byte // nil: none
	CreatedAt time.Time
	At        time.Time // when it was set aside
	Attempts  int       // how often Kafka has rejected it
	Failure   string    // why, last
}

// ListAside yields the events that are set aside, at most limit of them, 0 for all, those first that were first set aside. After an
// error there are no more. The rows are read while they are yielded: a connection or transaction can't be used meanwhile, a pool
// can.
func (o *Outbox) ListAside(ctx context.Context, db Querier, limit int) iter.Seq2[SetAside, error] {
	return func(yield func(SetAside, error) bool) {
		wrong := func(err error) error {
			return fmt.Errorf("pgoutbox: listing what is set aside in table %s: %w%s", o.table, err, hint(err))
		}
		rows, err := db.Query(ctx, o.sql.aside, limit)
		if err != nil {
			yield(SetAside{}, wrong(err))
			return
		}
		defer rows.Close()
		for rows.Next() {
			var e SetAside
			if err := rows.Scan(&e.ID, &e.Topic, &e.Key, &e.CreatedAt, &e.At, &e.Attempts, &e.Failure); err != nil {
				yield(SetAside{}, wrong(err))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(SetAside{}, wrong(err))
		}
	}
}

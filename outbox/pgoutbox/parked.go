package pgoutbox

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// ParkedEvent is an event that Kafka rejected MaxAttempts times. It stays in the table until an operator
// requeues or deletes it. Value and headers are left out, because they may be personal data. Topic and Key are
// cut if they alone are larger than an event may be.
type ParkedEvent struct {
	ID, Topic string
	Key       []byte // nil if the event has none
	// CreatedAt and At are when it was written and parked. They are zero if another program has set them to
	// infinity.
	CreatedAt, At time.Time
	Attempts      int    // the number of rejections
	Failure       string // the last error
}

// ListParked yields at most limit parked events, 0 for all, ordered by the time of parking. After an error it
// stops. db is in use during the iteration: a connection or a transaction can't run other statements
// meanwhile, a pool can.
func (o *Outbox) ListParked(ctx context.Context, db Querier, limit int) iter.Seq2[ParkedEvent, error] {
	return func(yield func(ParkedEvent, error) bool) {
		wrong := func(err error) error {
			return fmt.Errorf("pgoutbox: listing the parked events of table %s: %w%s", o.table, err,
				hint(err))
		}
		rows, err := db.Query(ctx, o.sql.parked, limit)
		if err != nil {
			yield(ParkedEvent{}, wrong(err))
			return
		}
		defer rows.Close()
		for rows.Next() {
			var e ParkedEvent
			var created, at pgtype.Timestamptz
			if err := rows.Scan(&e.ID, &e.Topic, &e.Key, &created, &at, &e.Attempts,
				&e.Failure); err != nil {
				yield(ParkedEvent{}, wrong(err))
				return
			}
			e.CreatedAt, e.At = created.Time, at.Time
			if !yield(e, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(ParkedEvent{}, wrong(err))
		}
	}
}

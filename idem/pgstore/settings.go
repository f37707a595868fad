package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/idemsk/idemsk/internal/network/silence"
)

// Records that share a transaction must not have each other's settings. A statement can change settings although its
// text does not show it, by a function or a trigger, and PostgreSQL does not show which settings of one's own
// (app.tenant) a session has. So they are reset before and after each record, and after a handler's transaction, as
// those of the session are at its end. What RESET ALL leaves, such as the role and temporary tables, is compared each
// time. A record that changes it has a transaction of its own, and a connection that is left with it is closed.

// resetSettings resets the settings of the session and of the transaction.
const resetSettings = `RESET ALL`

// setSettings sets settings with these names and values.
const setSettings = `SELECT count(set_config(name, value, false)) FROM unnest($1::text[], $2::text[]) AS s (name, value)`

// restNow is a number for what resetSettings leaves: the roles, whether the transaction is read-only, and temporary
// tables with their sizes.
const restNow = `hashtextextended(concat_ws(' ', current_setting('role'), session_user,
		current_setting('transaction_read_only'), CASE WHEN pg_my_temp_schema() <> 0 THEN
			(SELECT sum(1 + pg_relation_size(oid)) FROM pg_class WHERE relnamespace = pg_my_temp_schema()) END), 0)`

// hasRest selects a row if that number is $1, and sameRest fails unless it is.
const hasRest = `SELECT WHERE ` + restNow + ` = $1::bigint`

const sameRest = `SELECT CASE ` + restNow + ` WHEN $1::bigint THEN 1 ELSE ('idemsk: another role ' || now())::integer END`

// settings are those with which the pool's connections begin.
type settings struct {
	rest int64
	// the names and values of those that are not what they are after resetSettings
	names, values []string
}

// settings returns the settings with which the pool's connections begin.
func (s *Store) settings(ctx context.Context) (*settings, error) {
	if known := s.known.Load(); known != nil {
		return known, nil
	}
	known := new(settings)
	err := s.send(ctx, s.limit, func(w *silence.Watch, conn *pgx.Conn) error {
		return conn.QueryRow(w.Context(), `SELECT `+restNow+`, coalesce(array_agg(name), '{}'), coalesce(array_agg(setting), '{}')
			FROM pg_settings WHERE source = 'session' AND setting <> reset_val AND name NOT LIKE 'transaction%'`,
		).Scan(&known.rest, &known.names, &known.values)
	})
	if err != nil {
		return nil, err
	}
	s.known.Store(known)
	return known, nil
}

// reset adds the statements that reset the settings.
func (r *request) reset(known *settings, what step) {
	r.add(what, resetSettings)
	if len(known.names) > 0 {
		r.add(what, setSettings, known.names, known.values)
	}
}

// resetAndCompare is reset, and fails if something else is left that resetSettings does not reset.
func (r *request) resetAndCompare(known *settings, what step) {
	r.reset(known, what)
	r.add(what, sameRest, known.rest)
}

// closeUnlessSame closes a connection on which a record has left what resetSettings leaves.
func closeUnlessSame(w *silence.Watch, conn *pgx.Conn, known *settings) {
	if _, err := conn.Exec(w.Context(), sameRest, known.rest); err != nil {
		_ = conn.Close(w.Context())
	}
}

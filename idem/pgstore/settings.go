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
// time. A record that changes it has a transaction of its own. A connection that is left with it is set back and closed:
// behind a pooler, the server's connection goes on. So each transaction of a record also begins with the usual roles.

// resetSettings resets the settings of the session and of the transaction.
const resetSettings = `RESET ALL`

// setSettings sets settings with these names and values.
const setSettings = `SELECT count(set_config(name, value, false)) FROM unnest($1::text[], $2::text[]) AS s (name, value)`

// setRoles sets the roles of the session, which resetSettings leaves.
const setRoles = `SELECT set_config('session_authorization', $1, false), set_config('role', $2, false)`

// discardTemp drops the session's temporary tables.
const discardTemp = `DISCARD TEMP`

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
	rest          int64
	session, role string
	// the names and values of those that are not what they are after resetSettings
	names, values []string
}

// settings returns the settings with which the pool's connections begin. They are read before the first record, and not
// again: a connection may have what a record has left. Those of a server that is read-only now are not kept.
func (s *Store) settings(ctx context.Context) (*settings, error) {
	if known := s.known.Load(); known != nil {
		return known, nil
	}
	known := new(settings)
	var readOnly bool
	err := s.send(ctx, s.limit, func(w *silence.Watch, conn *pgx.Conn) error {
		return conn.QueryRow(w.Context(), `SELECT `+restNow+`, session_user::text, current_setting('role'),
				current_setting('transaction_read_only')::bool, coalesce(array_agg(name), '{}'), coalesce(array_agg(setting), '{}')
			FROM pg_settings WHERE source = 'session' AND setting <> reset_val AND name NOT LIKE 'transaction%'`,
		).Scan(&known.rest, &known.session, &known.role, &readOnly, &known.names, &known.values)
	})
	if err != nil {
		return nil, err
	}
	if !readOnly && !s.known.CompareAndSwap(nil, known) {
		known = s.known.Load()
	}
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

// begin adds the statements with which the transaction of a record begins as usual, or fails.
func (r *request) begin(known *settings) {
	r.add(ofConnection, resetSettings)
	r.add(ofConnection, setRoles, known.session, known.role)
	if len(known.names) > 0 {
		r.add(ofConnection, setSettings, known.names, known.values)
	}
	r.add(ofConnection, sameRest, known.rest)
}

// setBack sets a connection back and closes it. Behind a pooler it is the server's connection that has to be set back.
func setBack(w *silence.Watch, conn *pgx.Conn, known *settings) {
	if conn.PgConn().TxStatus() != idle {
		_, _ = conn.Exec(w.Context(), `ROLLBACK`)
	}
	_, err := conn.Exec(w.Context(), resetSettings)
	if err == nil {
		_, err = conn.Exec(w.Context(), setRoles, known.session, known.role)
	}
	if err == nil {
		_, _ = conn.Exec(w.Context(), discardTemp)
	}
	_ = conn.Close(w.Context())
}

// closeUnlessSame sets back and closes a connection on which a record has left what resetSettings leaves.
func closeUnlessSame(w *silence.Watch, conn *pgx.Conn, known *settings) {
	if _, err := conn.Exec(w.Context(), sameRest, known.rest); err != nil {
		setBack(w, conn, known)
	}
}

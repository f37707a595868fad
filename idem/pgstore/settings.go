package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/idemsk/idemsk/internal/network/silence"
)

// Records that share a transaction must not have each other's settings. A statement can change settings although
// its text does not show it, by a function or a trigger. So a group compares the settings before it ends. If they
// have changed, it is sent again with a comparison after each statement. The record whose statement changes a
// setting gets a transaction of its own, and so does each later one with that statement.

// settingsNow is a number for the settings of the session and of the transaction: the roles, what was set after
// the login, and temporary tables with their sizes. What a pooler such as PgBouncer sets for its clients counts by
// its value, because it differs between connections by how it was set.
const settingsNow = `hashtextextended(concat_ws(' ', current_setting('role'), session_user, current_setting('TimeZone'),
		current_setting('DateStyle'), current_setting('IntervalStyle'),
		CASE WHEN pg_my_temp_schema() <> 0 THEN (SELECT sum(1 + pg_relation_size(oid)) FROM pg_class
			WHERE relnamespace = pg_my_temp_schema()) END,
		(SELECT string_agg(name || '=' || setting, ' ' ORDER BY name) FROM pg_settings WHERE source = 'session'
			AND name NOT IN ('TimeZone', 'DateStyle', 'IntervalStyle', 'application_name', 'client_encoding',
				'standard_conforming_strings'))), 0)`

// sameSettings fails unless the settings have the number $1.
const sameSettings = `SELECT CASE ` + settingsNow + ` WHEN $1::bigint THEN 1
	ELSE ('idemsk: other settings ' || now())::integer END`

// settings returns the number of the settings with which the store's connections begin.
func (s *Store) settings(ctx context.Context) (number int64, err error) {
	if known := s.known.Load(); known != nil {
		return *known, nil
	}
	err = s.send(ctx, s.limit, func(w *silence.Watch, conn *pgx.Conn) error {
		return conn.QueryRow(w.Context(), `SELECT `+settingsNow).Scan(&number)
	})
	if err == nil {
		s.known.Store(&number)
	}
	return number, err
}

// closeUnlessSame closes a connection whose settings are not those with which it began.
func closeUnlessSame(w *silence.Watch, conn *pgx.Conn, number int64) {
	if _, err := conn.Exec(w.Context(), sameSettings, number); err != nil {
		_ = conn.Close(w.Context())
	}
}

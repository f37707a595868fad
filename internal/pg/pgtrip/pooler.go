package pgtrip

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// PoolerHint returns the remedy for an error of prepared statements, "" for another error. A pooler in
// transaction mode that does not track them executes a statement on a connection that does not have it, or has
// another one of the same name.
func PoolerHint(err error) string {
	const duplicate, missing = "42P05", "26000"
	var said *pgconn.PgError
	if !errors.As(err, &said) || said.Code != duplicate && said.Code != missing {
		return ""
	}
	return " (a connection pooler in transaction mode mixes up the prepared statements of its clients: set max_prepared_statements " +
		"of PgBouncer 1.21 or later, or add default_query_exec_mode=exec to the URL of the database)"
}

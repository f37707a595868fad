package pgstore

import "github.com/jackc/pgx/v5/pgxpool"

// SetClock replaces the store's clock by an SQL expression.
func (s *Store) SetClock(expression string) { s.sql = newStatements(s.table, expression) }

// CheckServer checks a server's version.
func CheckServer(version int) error { return checkServer(version) }

// Pool returns the pool of the store.
func (s *Store) Pool() *pgxpool.Pool { return s.pool.Pool }

// CommitStatements returns the statements that commit a handler's transaction.
func (s *Store) CommitStatements() []string {
	return []string{s.sql.completeAll, "COMMIT", resetSettings, setRoles, hasRest}
}

// The bounds of round trips.
const (
	MaxBatchSize = maxBatchSize
	MaxTries     = maxTries
)

package pgstore

import "github.com/jackc/pgx/v5/pgxpool"

// SetClock makes an SQL expression the clock that decides.
func (s *Store) SetClock(expression string) { s.sql = newStatements(s.table, expression) }

// CheckServer checks a server's version.
func CheckServer(version int) error { return checkServer(version) }

// Pool returns the store's pool.
func (s *Store) Pool() *pgxpool.Pool { return s.pool.Pool }

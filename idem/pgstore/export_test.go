package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

// SetClock makes an SQL expression the clock that decides.
func (s *Store) SetClock(expression string) { s.sql = newStatements(s.table, expression) }

// CheckServer checks a server's version.
func CheckServer(version int) error { return checkServer(version) }

// Abandoner does what becomes of the claims of a process that dies, for those of a key that are held now.
func (s *TxStore) Abandoner(key string) (abandon func()) {
	var held []*heldTx
	s.holder(func(h *heldTx) bool {
		if h.key == key {
			held = append(held, h)
		}
		return false
	})
	return func() {
		for _, h := range held {
			if s.release(h) {
				_ = h.tx.Rollback(context.Background())
				h.end()
			}
		}
	}
}

// Transactional returns a store in transaction mode for the table and the clock of one in lease mode.
func Transactional(s *Store) *TxStore {
	return &TxStore{Store: s, idle: "60000ms", held: make(map[*heldTx]struct{})}
}

// Pool returns the store's pool.
func (s *Store) Pool() *pgxpool.Pool { return s.pool.Pool }

// ChargeSQL is the claim of transaction mode.
func (s *Store) ChargeSQL() string { return s.sql.takeTx }

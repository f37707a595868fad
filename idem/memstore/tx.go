package memstore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// Tx is an effect in memory: functions that the store calls, under its lock, when the key completes.
type Tx struct {
	call   bool // the effect of a call of a handler for several tasks
	mu     sync.Mutex
	checks []func() error
	writes []func()
	sealed bool
}

var errNoTx = errors.New("memstore: there is no transaction: the handler's task was not claimed through a memstore.Store, or runs unprotected")

// TxFrom returns the effect of the task from a handler's context. If there is none, it returns an error
// marked by idem.Unavailable.
func TxFrom(ctx context.Context) (*Tx, error) {
	e, _ := store.EffectFrom(ctx)
	if tx, ok := e.(*Tx); ok {
		return tx, nil
	}
	return nil, idem.Unavailable(errNoTx)
}

// Check enlists a condition. If check returns an error, no write takes place, and the error becomes the
// handler's error. check must not use the store.
func (tx *Tx) Check(check func() error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if !tx.sealed {
		tx.checks = append(tx.checks, check)
	}
}

// Do enlists a write, which must not use the store.
func (tx *Tx) Do(write func()) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if !tx.sealed {
		tx.writes = append(tx.writes, write)
	}
}

// Seal implements store.Effect.
func (tx *Tx) Seal() (enlisted bool, err error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.sealed = true
	return len(tx.checks)+len(tx.writes) > 0, nil
}

// Discard implements store.Effect: nothing was written.
func (tx *Tx) Discard() {}

// NewEffect implements store.Transactor.
func (s *Store) NewEffect() store.Effect { return new(Tx) }

// NewCallEffect implements store.CallTransactor.
func (s *Store) NewCallEffect() store.Effect { return &Tx{call: true} }

// commit performs the writes of an effect if its checks succeed. The caller holds the store's lock.
func commit(effect store.Effect) error {
	if effect == nil {
		return nil
	}
	tx, ok := effect.(*Tx)
	if !ok {
		return &store.RejectedError{Err: fmt.Errorf("memstore: the effect is a %T: want the store's own",
			effect)}
	}
	for _, check := range tx.checks {
		if err := check(); err != nil {
			return &store.RejectedError{Err: err}
		}
	}
	for _, write := range tx.writes {
		write()
	}
	return nil
}

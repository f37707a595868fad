package pgstore

import (
	"context"
	"errors"

	"github.com/idemsk/idemsk/idem/store"

	"github.com/jackc/pgx/v5"

	"github.com/idemsk/idemsk/idem"
)

// TxHandler has the effect of a task, through tx: what it writes there commits together with the completion of its key, or
// is rolled back. See idem.Handler for its context, its result and its errors.
//
// The transaction is READ COMMITTED, and not the handler's to commit or roll back; savepoints (tx.Begin) are. It is good until
// the handler returns. After a statement that failed outside of a savepoint nothing can be committed: return the error.
type TxHandler func(ctx context.Context, tx pgx.Tx) ([]byte, error)

// What can be wrong with a transaction when its handler has returned.
var (
	errConnectionLost = errors.New("pgstore: the connection was lost, and the server has rolled the transaction back " +
		"(it was restarted, or ended the transaction as it was left alone for longer than IdleLimit)")
	errAborted = errors.New("pgstore: a statement of the transaction failed, so that nothing of it can be committed, " +
		"but the handler returned no error: return the statement's error, or make a savepoint (tx.Begin) before it")
	errEnded = errors.New("pgstore: the handler ended the transaction itself, so its effect does not commit with its completion: " +
		"see whether it took place, and take COMMIT and ROLLBACK out of the handler")
	errNotYours = errors.New("pgstore: the transaction is committed when the handler returns no error, and rolled back when it returns one")
	errNoTx     = errors.New("pgstore: there is no transaction for the handler: its task was not claimed through this store, or runs unprotected")
)

// Handler returns a handler for the tasks of an engine on this store, which calls h with the transaction of its claim. Where
// there is none, as the engine fails open, h is not called, and the error is marked idem.Unavailable.
func (s *TxStore) Handler(h TxHandler) idem.Handler {
	return idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
		held := s.heldFor(ctx)
		if held == nil {
			return nil, idem.Unavailable(errNoTx)
		}
		returned := false
		defer func() {
			if !returned && s.release(held) { // after runtime.Goexit nothing will be settled
				held.end()
			}
		}()
		result, err := h(ctx, handlersTx{held.tx})
		returned = true
		if err != nil {
			return result, err
		}
		switch err := held.usable(); {
		case errors.Is(err, errEnded):
			return nil, idem.Permanent(err) // nobody knows whether another attempt would do it twice
		case err != nil:
			return nil, err
		}
		return result, nil
	})
}

// heldFor returns the claim that a handler's context belongs to, for its handler to begin.
func (s *TxStore) heldFor(ctx context.Context) *heldTx {
	a, ok := idem.AttemptFrom(ctx)
	if !ok {
		return nil
	}
	for _, hashed := range []bool{false, true} { // as the engine's HashKeys has it
		key, err := store.Key(a.Key, hashed)
		if err != nil {
			return nil
		}
		h := s.holder(func(h *heldTx) bool {
			fits := h.key == key && h.version == a.Token
			h.begun = h.begun || fits
			return fits
		})
		if h != nil {
			return h
		}
	}
	return nil
}

// handlersTx is a transaction that its handler can't end.
type handlersTx struct{ pgx.Tx }

// Commit implements pgx.Tx.
func (handlersTx) Commit(context.Context) error { return errNotYours }

// Rollback implements pgx.Tx.
func (handlersTx) Rollback(context.Context) error { return errNotYours }

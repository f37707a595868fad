package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/network/silence"
)

// DefaultIdleLimit is the default of Config.IdleLimit.
const DefaultIdleLimit = time.Minute

// The errors of a handler's transaction.
var (
	errNoTx = errors.New("pgstore: there is no transaction: the handler's task was not claimed through a " +
		"pgstore.Store, or runs unprotected, or it is a call whose records have transactions of their own")
	errOver      = errors.New("pgstore: the handler has returned: its transaction is over")
	errOneConn   = errors.New("pgstore: a pool of one connection has none for a handler's transaction: set pool_max_conns to 2 or more")
	errDelegated = errors.New("pgstore: the transaction is committed when the handler returns no error, and rolled back when it returns one")
	errUnusual   = errors.New("pgstore: nothing was executed: the session has another role, temporary tables or is read-only, " +
		"and the store could not set it back: look for another user of the connections (a pooler's)")
	errConnection = errors.New("pgstore: the connection was lost, and the server has rolled the transaction back (it was restarted, " +
		"or ended the transaction as it was left alone for longer than IdleLimit)")
	errAborted = errors.New("pgstore: a statement of the transaction failed, so that nothing of it can be committed, " +
		"but the handler returned no error: return the statement's error, or make a savepoint (tx.Begin) before it")
	errEnded = errors.New("pgstore: the handler ended the transaction itself, so its effect does not commit with its completion: " +
		"see whether it took place, and take COMMIT and ROLLBACK out of the handler")
)

// The transaction states of a connection, as pgconn reports them.
const (
	idle          = 'I'
	inTransaction = 'T'
	aborted       = 'E' // a statement in the transaction failed
)

// TxFrom returns the transaction of the task whose handler has the context. Each call returns the same
// transaction. The handler's writes in it are committed together with the completion of its key, or rolled
// back.
//
// The first call begins the transaction. It waits for a connection of the pool while MaxConns-1 handlers have
// one. The transaction is READ COMMITTED. The handler must not commit it or roll it back, but may use
// savepoints (tx.Begin). It is not safe for concurrent use, and ends when the handler returns. If a statement
// fails outside of a savepoint, nothing can be committed: return the error.
//
// A bulk handler that passes the context of its call (schedule.BulkHandler, kafka.BulkHandler) gets one
// transaction for all records of the call, which commits with all their completions or not at all. The
// contexts of the records have the same one then.
//
// If there is no transaction, because the engine fails open, uses another store, or can't reach the server,
// the error is marked idem.Unavailable. So it is if a record of the call has a transaction of its own.
func TxFrom(ctx context.Context) (pgx.Tx, error) {
	e, err := effectOf(ctx)
	if err != nil {
		return nil, err
	}
	return e.begin(ctx)
}

// effectOf returns the effect of the task whose handler has the context.
func effectOf(ctx context.Context) (*effect, error) {
	e, _ := store.EffectFrom(ctx)
	own, ok := e.(*effect)
	if !ok {
		return nil, idem.Unavailable(errNoTx)
	}
	return own, nil
}

// effect is the transaction of a handler: one that has begun, or what is sent with the completion.
type effect struct {
	store *Store
	call  bool // of a handler that was called for several tasks: the effect of all of them

	mu   sync.Mutex
	over bool          // the handler has returned
	conn *pgxpool.Conn // nil before the transaction has begun, and after it has ended
	tx   pgx.Tx

	begun    bool      // by TxFrom
	known    *settings // of the connection when it began
	enlisted []statement
	invalid  error // the errors of Enlist
}

// NewEffect implements store.Transactor.
func (s *Store) NewEffect() store.Effect { return &effect{store: s} }

// NewCallEffect implements store.CallTransactor.
func (s *Store) NewCallEffect() store.Effect { return &effect{store: s, call: true} }

func (e *effect) begin(ctx context.Context) (pgx.Tx, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.over:
		return nil, errOver
	case e.conn != nil:
		return handlersTx{e.tx}, nil
	}
	if err := e.connect(ctx); err != nil {
		return nil, err
	}
	return handlersTx{e.tx}, nil
}

// connect waits for a connection and begins the transaction; e.mu is held.
func (e *effect) connect(ctx context.Context) error {
	if cap(e.store.slots) == 0 {
		return idem.Unavailable(errOneConn)
	}
	select {
	case e.store.slots <- struct{}{}:
	case <-ctx.Done():
		return idem.Unavailable(fmt.Errorf(
			"pgstore: %d handlers have a transaction, and no other connection is left: raise pool_max_conns, "+
				"or lower the concurrency: %w", cap(e.store.slots), context.Cause(ctx)))
	}
	known, err := e.store.settings(ctx)
	if e.known = known; err == nil {
		again := func(err error) bool { return transient(err) || errors.Is(err, errUnusual) }
		err = retry(ctx, again, func() error { return e.tryBegin(ctx) })
	}
	if err != nil {
		<-e.store.slots
		return idem.Unavailable(e.store.complain("beginning the handler's transaction", err))
	}
	return nil
}

func (e *effect) tryBegin(ctx context.Context) error {
	conn, err := e.store.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	var tx pgx.Tx
	err = e.store.pool.Exchange(ctx, e.store.limit, conn, func(w *silence.Watch, conn *pgx.Conn) error {
		var batch pgx.Batch
		batch.BeginTx(pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
		var usual request
		usual.begin(e.known)
		for _, q := range usual.batch.QueuedQueries {
			batch.Queue(q.SQL, q.Arguments...)
		}
		batch.Queue(`SELECT set_config('idle_in_transaction_session_timeout', $1, true)`, e.store.idle)
		results := conn.SendBatch(w.Context(), &batch)
		err := results.Close()
		tx = results.Tx()
		if stateOf(err) == stateInvalidText { // of sameRest
			setBack(w, conn, e.known)
			return fmt.Errorf("%w: %w", errUnusual, err)
		}
		return err
	})
	if err != nil {
		conn.Release() // closes a connection that is in a transaction
		return err
	}
	e.conn, e.tx, e.begun = conn, tx, true
	return nil
}

// Seal implements store.Effect.
func (e *effect) Seal() (enlisted bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	if e.invalid != nil || e.conn == nil {
		return len(e.enlisted) > 0, e.invalid
	}
	if err := usable(e.conn.Conn()); errors.Is(err, errEnded) {
		return true, idem.Permanent(err) // another attempt could repeat the effect
	} else if err != nil {
		return true, err
	}
	return true, nil
}

// Separate implements store.SeparateEffect: a transaction that has begun is committed on its own connection, and
// statements that change what resetSettings leaves have a transaction of their own.
func (e *effect) Separate() bool { return e.begun || e.changes() }

// changes reports whether an enlisted statement changes what resetSettings leaves.
func (e *effect) changes() bool {
	return slices.ContainsFunc(e.enlisted, func(st statement) bool { return st.text.changes.Load() })
}

// Discard implements store.Effect. It rolls the transaction back and returns the connection to the pool.
func (e *effect) Discard() {
	if conn := e.take(); conn != nil {
		e.end(conn, false)
	}
}

// toCommit is take. It begins the transaction of a call whose handler has enlisted statements only.
func (e *effect) toCommit(ctx context.Context) (*pgxpool.Conn, error) {
	e.mu.Lock()
	if !e.begun {
		if err := e.connect(ctx); err != nil {
			e.mu.Unlock()
			return nil, err
		}
	}
	e.mu.Unlock()
	return e.take(), nil
}

// take returns the connection, and the caller must end it. It returns nil if there is no transaction.
func (e *effect) take() *pgxpool.Conn {
	e.mu.Lock()
	defer e.mu.Unlock()
	conn := e.conn
	e.over, e.conn, e.tx = true, nil, nil
	return conn
}

// end returns a connection from take to the pool, and rolls back what was not committed, with the settings. If the
// rollback fails, the release closes the connection, and the server rolls back. A connection on which the handler
// has ended the transaction is closed: it may have changed settings after that.
func (e *effect) end(conn *pgxpool.Conn, committed bool) {
	_ = e.store.pool.Exchange(context.Background(), e.store.limit, conn,
		func(w *silence.Watch, conn *pgx.Conn) error {
			switch usable := usable(conn); {
			case usable == nil || errors.Is(usable, errAborted):
				_, err := conn.Exec(w.Context(), `ROLLBACK`)
				return err
			case !committed:
				setBack(w, conn, e.known)
			}
			return nil
		})
	conn.Release()
	<-e.store.slots
}

// usable returns an error if the transaction on a connection can't be committed.
func usable(conn *pgx.Conn) error {
	switch {
	case conn.IsClosed():
		return errConnection
	case conn.PgConn().TxStatus() == aborted:
		return errAborted
	case conn.PgConn().TxStatus() != inTransaction:
		return errEnded
	}
	return nil
}

// handlersTx is a transaction that its handler can't commit or roll back.
type handlersTx struct{ pgx.Tx }

// Commit implements pgx.Tx.
func (handlersTx) Commit(context.Context) error { return errDelegated }

// Rollback implements pgx.Tx.
func (handlersTx) Rollback(context.Context) error { return errDelegated }

package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/idemsk/idemsk/idem/store"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/idemsk/idemsk/internal/silence"
)

// The states of a connection, as pgconn has them.
const (
	inTransaction = 'T'
	aborted       = 'E' // a statement in the transaction failed
)

// Settle implements store.Store. A completion commits the handler's transaction with it. A failure and a release roll it back
// first. Where the transaction is gone, so are the handler's writes: a completion is then fenced, unless it had landed before.
func (s *TxStore) Settle(ctx context.Context, ss []store.Settlement) []error {
	errs := make([]error, len(ss))
	failed := false
	for i := range ss {
		errs[i] = s.settle(ctx, &ss[i])
		failed = failed || errs[i] != nil
	}
	if !failed {
		return nil
	}
	return errs
}

func (s *TxStore) settle(ctx context.Context, set *store.Settlement) error {
	h := s.holder(func(h *heldTx) bool { return h.key == set.Key && h.owner == set.Owner && h.version == set.Token })
	if err := ctx.Err(); err != nil {
		switch { // there may be no other try, and nobody else could have the key until the server ended the transaction
		case h == nil:
		case set.Op == store.OpExtend:
			s.abandon(h)
		case s.release(h):
			h.end()
		}
		return s.explain(set.Op.String(), set.Key, err)
	}
	switch {
	case set.Op == store.OpComplete && h != nil:
		return s.commit(ctx, set, h)
	case set.Op == store.OpComplete:
		return s.committedBefore(ctx, set)
	case set.Op == store.OpExtend:
		return s.extend(ctx, set, h)
	case h != nil:
		return s.rollBack(ctx, set, h)
	}
	return s.plain(ctx, set)
}

// extend extends a lease, or finds the claim lost: one that no handler has begun is not settled then.
func (s *TxStore) extend(ctx context.Context, set *store.Settlement, h *heldTx) error {
	err := s.plain(ctx, set)
	switch {
	case err == nil || h == nil:
		return err
	case !errors.Is(err, store.ErrFenced) && !errors.Is(err, context.Canceled):
		return nil // all connections are at work, perhaps; it is the transaction that holds the key
	}
	s.abandon(h)
	return err
}

// plain settles as lease mode does.
func (s *TxStore) plain(ctx context.Context, set *store.Settlement) error {
	if errs := s.Store.Settle(ctx, []store.Settlement{*set}); errs != nil {
		return errs[0]
	}
	return nil
}

// commit completes the key and commits, in one round trip. A completion that is refused is an error to the server, so that
// the COMMIT behind it is not reached.
func (s *TxStore) commit(ctx context.Context, set *store.Settlement, h *heldTx) error {
	if !s.release(h) {
		return s.committedBefore(ctx, set)
	}
	if err := h.usable(); err != nil {
		h.end()
		return s.notCommitted(ctx, set, err)
	}
	var batch pgx.Batch
	batch.Queue(s.sql.completeTx, settleArgs(set)...)
	batch.Queue(`COMMIT`).Exec(func(tag pgconn.CommandTag) error {
		if tag.String() != "COMMIT" {
			return fmt.Errorf("the server answered %s to COMMIT", tag)
		}
		return nil
	})
	err := s.pool.Exchange(ctx, s.limit, h.conn, func(w *silence.Watch, conn *pgx.Conn) error {
		return conn.SendBatch(w.Context(), &batch).Close()
	})
	h.end() // before anything else needs a connection: there may be no other
	var said *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &said) || said.SeverityUnlocalized != "ERROR": // the connection is gone, and nobody knows what was last
		return s.explain("complete", set.Key, err)
	case said.Code == stateDivisionByZero:
		return s.refusedCommit(ctx, set)
	}
	return s.notCommitted(ctx, set, err)
}

// refusedCommit is for a key that is not its owner's any more: the handler's writes are undone.
func (s *TxStore) refusedCommit(ctx context.Context, set *store.Settlement) error {
	seen, err := s.lookAt(ctx, []string{set.Key})
	if err != nil {
		return s.explain("complete", set.Key, err)
	}
	found, there := seen[set.Key]
	return refusal(set, &found.rec, there)
}

// notCommitted is for a transaction that the server would not commit: the handler's writes are undone, the key is released
// with the reason as its failure, and the completion is fenced.
func (s *TxStore) notCommitted(ctx context.Context, set *store.Settlement, cause error) error {
	release := store.Settlement{
		Op: store.OpRelease, Key: set.Key, Token: set.Token, Owner: set.Owner, Retention: set.Retention,
		Failure: &store.Failure{Code: store.CodeError, Message: message("the transaction was not committed: " + cause.Error())},
	}
	err := s.plain(ctx, &release)
	seen, lookErr := s.lookAt(ctx, []string{set.Key})
	return fmt.Errorf("pgstore: complete %q: the transaction was rolled back, and the handler's writes with it: %w: %w", set.Key,
		errors.Join(cause, err, lookErr), &store.FencedError{Key: set.Key, Token: set.Token, Current: seen[set.Key].rec})
}

// message fits a text into a failure.
func message(text string) string {
	if len(text) > store.MaxFailureMessage {
		text = strings.ToValidUTF8(text[:store.MaxFailureMessage], "")
	}
	return text
}

// committedBefore is for a completion without a transaction: sent again after its reply was lost, or late. While the key's
// lock is taken the transaction may be on its way still, and there is no answer yet.
func (s *TxStore) committedBefore(ctx context.Context, set *store.Settlement) error {
	var alone bool
	seen := make(map[string]sighting, 1)
	err := s.send(ctx, s.limit, func(w *silence.Watch, conn *pgx.Conn) error {
		clear(seen)
		var batch pgx.Batch
		batch.Queue(s.sql.alone, lockOf(set.Key), s.idle).QueryRow(func(row pgx.Row) error { return row.Scan(&alone, nil) })
		batch.Queue(s.sql.look, []string{escape(set.Key)}).Query(func(rows pgx.Rows) error { return readSightings(rows, w, seen) })
		return conn.SendBatch(w.Context(), &batch).Close()
	})
	found, there := seen[set.Key]
	switch {
	case err != nil:
		return s.explain("complete", set.Key, err)
	case there && !alone && store.Holds(set, &found.rec):
		return s.explain("complete", set.Key, errors.New("the connection was lost, and the server has not ended its transaction yet"))
	}
	return refusal(set, &found.rec, there)
}

// rollBack undoes the handler's writes and settles, in one round trip; as lease mode does if the connection is gone.
func (s *TxStore) rollBack(ctx context.Context, set *store.Settlement, h *heldTx) error {
	if !s.release(h) {
		return s.plain(ctx, set)
	}
	var batch pgx.Batch
	done := false
	batch.Queue(`ROLLBACK`)
	s.sql.queue(&batch, set, func(ok bool) { done = ok })
	err := s.pool.Exchange(ctx, s.limit, h.conn, func(w *silence.Watch, conn *pgx.Conn) error {
		return conn.SendBatch(w.Context(), &batch).Close()
	})
	h.end()
	if err == nil && done {
		return nil
	}
	return s.plain(ctx, set) // which recognises what has landed
}

// usable tells why a transaction can't be committed.
func (h *heldTx) usable() error {
	conn := h.conn.Conn()
	switch {
	case conn.IsClosed():
		return errConnectionLost
	case conn.PgConn().TxStatus() == aborted:
		return errAborted
	case conn.PgConn().TxStatus() != inTransaction:
		return errEnded
	}
	return nil
}

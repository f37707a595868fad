package pgstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/idemsk/idemsk/idem/store"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/silence"
)

// DefaultIdleLimit is how long a handler may leave its transaction alone unless TxConfig says otherwise.
const DefaultIdleLimit = time.Minute

// TxConfig configures a TxStore. Every field's zero value stands for its default.
type TxConfig struct {
	Config
	// IdleLimit is how long a handler may leave its transaction alone between two statements (default DefaultIdleLimit, at
	// least a millisecond) before the server ends it. It bounds how long the key of a host stays taken that has vanished
	// without a word.
	IdleLimit time.Duration
}

// TxStore is a store in PostgreSQL, in transaction mode: a claim holds its key by an open transaction, in which the handler
// writes (see Handler), and in which the key completes. Use it under an idem.Engine, as any other store.
//
// A claim is two transactions in one round trip. The first charges the attempt, so that a message that kills its process
// over and over runs out of attempts. The second takes an advisory lock on the key and stays open. Nobody else has that lock
// while the owner lives, however long its handler takes; when its connection breaks, the server rolls all back and gives the
// lock up, and the next contender need not wait for the lease to end.
//
// Each claim holds a connection of the pool until it is settled: the pool needs as many as handlers run at once, and one
// more. Claim and Settle take several elements one after the other.
type TxStore struct {
	*Store
	idle string // in ms, as the server takes it

	mu   sync.Mutex
	held map[*heldTx]struct{}
}

var (
	_ store.Store   = (*TxStore)(nil)
	_ store.Batcher = (*TxStore)(nil)
	_ store.Admin   = (*TxStore)(nil)
)

// heldTx is a claim's transaction.
type heldTx struct {
	conn    *pgxpool.Conn
	tx      pgx.Tx
	key     string
	owner   string
	version int64
	begun   bool // by a handler; guarded by TxStore.mu
}

// NewTx returns a store in transaction mode on a table, which it does not look at. It returns idem.ErrInvalidConfig, naming
// every field at fault. The pool stays the caller's; Close the store before it.
func NewTx(pool *pgxpool.Pool, cfg TxConfig) (*TxStore, error) {
	st, err := New(pool, cfg.Config)
	if idle := cmp.Or(cfg.IdleLimit, DefaultIdleLimit); idle < time.Millisecond {
		err = errors.Join(err, fmt.Errorf("pgstore: %w: IdleLimit is %v: want 1ms or more", idem.ErrInvalidConfig, idle))
	}
	if err != nil {
		return nil, err
	}
	idle := fmt.Sprintf("%dms", cmp.Or(cfg.IdleLimit, DefaultIdleLimit).Milliseconds())
	return &TxStore{Store: st, idle: idle, held: make(map[*heldTx]struct{})}, nil
}

// BatchSize implements store.Batcher: a claim gathered ahead would hold a connection.
func (s *TxStore) BatchSize() int { return 1 }

// Close rolls back every transaction that is still open. No handler may be at work.
func (s *TxStore) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for h := range s.held {
		h.end()
	}
	clear(s.held)
}

// end gives the connection back. The pool closes one that is still in a transaction, and so the server rolls back.
func (h *heldTx) end() { h.conn.Release() }

// hold remembers a claim.
func (s *TxStore) hold(h *heldTx) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[h] = struct{}{}
}

// holder returns the claim that fits, nil if there is none. There are no more of them than connections.
func (s *TxStore) holder(fits func(h *heldTx) bool) *heldTx {
	s.mu.Lock()
	defer s.mu.Unlock()
	for h := range s.held {
		if fits(h) {
			return h
		}
	}
	return nil
}

// release takes a claim out of those that are held: its connection is the caller's to end. False if another call was first.
func (s *TxStore) release(h *heldTx) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.held[h]
	delete(s.held, h)
	return ok
}

// abandon ends a claim that nothing will settle, unless a handler is at work in its transaction: that will.
func (s *TxStore) abandon(h *heldTx) {
	s.mu.Lock()
	begun := h.begun
	s.mu.Unlock()
	if !begun && s.release(h) {
		h.end()
	}
}

// Claim implements store.Store.
func (s *TxStore) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	results := make([]store.ClaimResult, len(reqs))
	for i := range reqs {
		results[i] = s.claim(ctx, &reqs[i])
	}
	return results
}

// contended is after how long a key is worth another look that somebody else is just about to claim.
const contended = 25 * time.Millisecond

func (s *TxStore) claim(ctx context.Context, req *store.ClaimRequest) store.ClaimResult {
	if req.Owner == "" { // it is not an earlier claim, sent again
		named := *req
		named.Owner = rand.Text()
		req = &named
	}
	if h := s.holder(func(h *heldTx) bool { return h.key == req.Key && h.owner == req.Owner }); h != nil {
		return s.claimAgain(ctx, req)
	}
	var last attempt
	for range maxRounds {
		err := again(ctx, func() (err error) {
			last, err = s.tryClaim(ctx, req)
			return err
		})
		if err != nil {
			return store.ClaimResult{Err: s.explain("claim", req.Key, err)}
		}
		if res, final := s.answer(req, &last); final {
			return res
		}
	}
	return store.ClaimResult{State: store.ClaimInFlight, Entry: last.found.rec, ClaimableIn: contended}
}

// claimAgain answers a claim that is held already: it was sent again.
func (s *TxStore) claimAgain(ctx context.Context, req *store.ClaimRequest) store.ClaimResult {
	seen, err := s.lookAt(ctx, []string{req.Key})
	if err != nil {
		return store.ClaimResult{Err: s.explain("claim", req.Key, err)}
	}
	found := seen[req.Key]
	if !store.OwnClaim(req, &found.rec) {
		return store.ClaimResult{State: store.ClaimInFlight, Entry: found.rec, ClaimableIn: contended}
	}
	return store.ClaimResult{State: store.Claimed, Entry: found.rec}
}

// attempt is what came of trying to claim a key.
type attempt struct {
	took
	alone bool // the key's lock is ours: nobody else has a transaction for it
	there bool
	found sighting
}

// tryClaim is one round trip, or two. It charges the attempt if the key may be taken, and commits; then it takes the key's lock and
// looks. A claim that is its owner's and has the lock is held; otherwise a second round trip ends the transaction.
//
// Between the two transactions another contender may get the lock, and may be charged too. At most one of them then finds
// itself the owner.
func (s *TxStore) tryClaim(ctx context.Context, req *store.ClaimRequest) (a attempt, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return a, err
	}
	var tx pgx.Tx
	err = s.pool.Exchange(ctx, s.limit, conn, func(w *silence.Watch, conn *pgx.Conn) (err error) {
		tx, err = s.begin(w, conn, req, &a)
		return err
	})
	if tx == nil {
		conn.Release() // which closes it if it is in a transaction
		return a, err
	}
	s.hold(&heldTx{conn: conn, tx: tx, key: req.Key, owner: req.Owner, version: a.found.rec.Token})
	return a, nil
}

// begin has the exchange of a claim. It returns the transaction that holds the key, nil if the key is not held.
func (s *TxStore) begin(w *silence.Watch, conn *pgx.Conn, req *store.ClaimRequest, a *attempt) (pgx.Tx, error) {
	lock := lockOf(req.Key)
	seen := make(map[string]sighting, 1)
	var batch pgx.Batch
	batch.BeginTx(pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	batch.Queue(s.sql.takeTx, append(takeArgs(req, s.skew), lock)...).Query(func(rows pgx.Rows) (err error) {
		a.took, err = readTook(rows)
		return err
	})
	batch.Queue(`COMMIT AND CHAIN`)
	batch.Queue(s.sql.alone, lock, s.idle).QueryRow(func(row pgx.Row) error { return row.Scan(&a.alone, nil) })
	batch.Queue(s.sql.look, []string{escape(req.Key)}).Query(func(rows pgx.Rows) error { return readSightings(rows, w, seen) })
	results := conn.SendBatch(w.Context(), &batch)
	if err := results.Close(); err != nil {
		return nil, err
	}
	a.found, a.there = seen[req.Key]
	if a.alone && a.there && store.OwnClaim(req, &a.found.rec) {
		return results.Tx(), nil
	}
	_ = results.Tx().Rollback(w.Context()) // a connection that can't roll back is closed by its release, which does
	return nil, nil                        //nolint:nilnil // not held
}

// answer is what came of a claim; not final if it should be tried again.
func (s *TxStore) answer(req *store.ClaimRequest, a *attempt) (res store.ClaimResult, final bool) {
	rec := &a.found.rec
	switch {
	case !a.there:
		return res, false
	case store.OwnClaim(req, rec):
		if !a.alone {
			return store.ClaimResult{State: store.ClaimInFlight, Entry: *rec, ClaimableIn: contended}, true
		}
		return store.ClaimResult{State: store.Claimed, Entry: *rec, Stolen: a.stolen}, true
	}
	judged := a.found
	if a.alone && a.found.transactional && rec.Status == store.StatusStarted { // its owner's transaction is gone
		judged.rec.LeaseUntil = a.found.now.Add(-s.skew)
	}
	res, final = s.judge(req, &judged)
	res.Entry = *rec
	if rec.Status != store.StatusStarted || a.alone || (final && res.State != store.ClaimLeaseOver) {
		return res, final
	}
	// Its lease or delay is over, but a transaction is at work on it, or another contender just about to be.
	res.State, res.ClaimableIn = store.ClaimInFlight, req.Lease
	if rec.Released() {
		res.ClaimableIn = contended
	}
	return res, true
}

// Package pgstore keeps idempotency state in a table of a PostgreSQL database, version 15 or later. It holds a key by a lease, as
// the stores for other databases do. A fresh record costs two round trips, a duplicate one; a batch costs as many as a single
// record does.
//
// A handler that calls [TxFrom] writes through a transaction in which its key completes too: effect and completion are there
// together, or not at all. That costs one more round trip.
//
// The server's clock decides. The table is made by [Migrate], which nothing else calls; [Check] tells whether that was done.
package pgstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/chunks"
	"github.com/idemsk/idemsk/internal/pgmigrate"
	"github.com/idemsk/idemsk/internal/pgtrip"
	"github.com/idemsk/idemsk/internal/silence"
)

// DefaultTable is the name of the table unless Config says otherwise.
const DefaultTable = "idemsk"

// DefaultRoundTripTimeout is for how long the server may say nothing in a round trip unless Config says otherwise.
const DefaultRoundTripTimeout = 2 * time.Second

// MaxBatchSize is how many claims or settlements go in one round trip, and in one transaction.
const MaxBatchSize = 100

// Config configures a Store. Every field's zero value stands for its default.
type Config struct {
	// Table is the table's name, or its schema and name with a dot between (default DefaultTable). A name has up to 48
	// letters, digits, '_' and '-', and is taken as it is written, capitals too.
	Table string
	// MaxClockSkew is the most by which the clocks of two servers differ (default store.DefaultMaxClockSkew; -1: not at all).
	// One server has one clock; what counts is that of the standby that takes over from it. A lease ends for others so much
	// later than for its owner.
	MaxClockSkew time.Duration
	// RoundTripTimeout is for how long the server may say nothing in a round trip (default DefaultRoundTripTimeout, at least a
	// millisecond). After that it is made again on a new connection, up to three times in all. To get a connection is not part of
	// it: that is bounded by the pool's connect_timeout.
	RoundTripTimeout time.Duration
	// IdleLimit is how long a handler may leave its transaction alone between two statements (default DefaultIdleLimit, at
	// least a millisecond) before the server ends it. It bounds how long the locks of a host stay taken that has vanished
	// without a word.
	IdleLimit time.Duration
}

// Store is a store in PostgreSQL. It is safe for concurrent use.
type Store struct {
	pool  *pgtrip.Pool
	table pgmigrate.Table
	skew  time.Duration
	limit time.Duration // of a round trip
	sql   *statements

	idle  string        // IdleLimit in ms, as the server takes it
	slots chan struct{} // a token for each handler's transaction
}

var (
	_ store.Store      = (*Store)(nil)
	_ store.Batcher    = (*Store)(nil)
	_ store.Transactor = (*Store)(nil)
	_ store.Admin      = (*Store)(nil)
)

// New returns a store on a table, which it does not look at. It returns idem.ErrInvalidConfig, naming every field at fault.
// The pool stays the caller's. Each handler that has called TxFrom holds a connection of it until its key is settled; one is kept
// for claims, heartbeats and settlements, so that MaxConns-1 handlers have a transaction at the same time, and others wait.
func New(pool *pgxpool.Pool, cfg Config) (*Store, error) {
	cfg.Table = cmp.Or(cfg.Table, DefaultTable)
	cfg.MaxClockSkew = cmp.Or(cfg.MaxClockSkew, store.DefaultMaxClockSkew)
	cfg.RoundTripTimeout = cmp.Or(cfg.RoundTripTimeout, DefaultRoundTripTimeout)
	cfg.IdleLimit = cmp.Or(cfg.IdleLimit, DefaultIdleLimit)
	var errs []error
	if pool == nil {
		errs = append(errs, errors.New("the pool is nil"))
	}
	table, err := pgmigrate.ParseTable(cfg.Table)
	if err != nil {
		errs = append(errs, err)
	}
	if cfg.MaxClockSkew < -1 {
		errs = append(errs, fmt.Errorf("MaxClockSkew is %v: want 0 or more, or -1 for none", cfg.MaxClockSkew))
	}
	if cfg.RoundTripTimeout < time.Millisecond {
		errs = append(errs, fmt.Errorf("RoundTripTimeout is %v: want 1ms or more", cfg.RoundTripTimeout))
	}
	if cfg.IdleLimit < time.Millisecond {
		errs = append(errs, fmt.Errorf("IdleLimit is %v: want 1ms or more", cfg.IdleLimit))
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("pgstore: %w: %w", idem.ErrInvalidConfig, errors.Join(errs...))
	}
	s := &Store{pool: pgtrip.New(pool, cfg.RoundTripTimeout), table: table, skew: max(0, cfg.MaxClockSkew), limit: cfg.RoundTripTimeout}
	s.sql = newStatements(table, serverClock)
	s.idle = fmt.Sprintf("%dms", cfg.IdleLimit.Milliseconds())
	s.slots = make(chan struct{}, pool.Config().MaxConns-1)
	return s, nil
}

// ValidTable reports whether name can be a Config's Table.
func ValidTable(name string) bool { _, err := pgmigrate.ParseTable(name); return err == nil }

// Table returns the name of the store's table.
func (s *Store) Table() string { return s.table.String() }

// MaxClockSkew returns the skew in force.
func (s *Store) MaxClockSkew() time.Duration { return s.skew }

// BatchSize implements store.Batcher.
func (s *Store) BatchSize() int { return MaxBatchSize }

// maxRounds bounds how often a claim looks again at a key that changes between its attempt and its look. Contenders that
// get so far have lost every round to somebody who got on.
const maxRounds = 8

// Claim implements store.Store. Up to MaxBatchSize claims are one round trip and one transaction: what makes one of them fail
// fails them all.
func (s *Store) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	results := make([]store.ClaimResult, len(reqs))
	left := byKey(len(reqs), func(i int) string { return reqs[i].Key })
	for range maxRounds {
		var again []int
		for chunk := range slices.Chunk(left, MaxBatchSize) {
			again = append(again, s.claimChunk(ctx, reqs, chunk, results)...)
		}
		if left = again; len(left) == 0 {
			return results
		}
	}
	for _, i := range left {
		results[i].State, results[i].Err = store.ClaimInFlight, nil
	}
	return results
}

// byKey returns the indices of n elements in the order of their keys. Transactions that lock rows in one order never wait
// for each other in a circle.
func byKey(n int, key func(i int) string) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(key(a), key(b)) })
	return order
}

// claimChunk tries to take each key, looks at all of them, and judges what was not taken. It returns those that have
// become claimable, or have gone, between the attempt and the look.
func (s *Store) claimChunk(ctx context.Context, reqs []store.ClaimRequest, chunk []int, results []store.ClaimResult) (again []int) {
	var taken map[int]took
	var seen map[string]sighting
	err := s.send(ctx, s.limit, func(w *silence.Watch, conn *pgx.Conn) (err error) {
		taken, seen, err = s.tryClaim(w, conn, reqs, chunk)
		return err
	})
	for _, i := range chunk {
		req := &reqs[i]
		if err != nil {
			results[i] = store.ClaimResult{Err: s.explain("claim", req.Key, err)}
			continue
		}
		found, there := seen[req.Key]
		switch {
		case !there:
			again = append(again, i)
		case taken[i].taken:
			results[i] = store.ClaimResult{State: store.Claimed, Entry: found.rec, Stolen: taken[i].stolen}
		default:
			var final bool
			if results[i], final = s.judge(req, &found); !final {
				again = append(again, i)
			}
		}
	}
	return again
}

// tryClaim is one round trip, and one transaction.
func (s *Store) tryClaim(w *silence.Watch, conn *pgx.Conn, reqs []store.ClaimRequest, chunk []int) (map[int]took, map[string]sighting, error) {
	taken, seen := make(map[int]took, len(chunk)), make(map[string]sighting, len(chunk))
	keys := make([]string, len(chunk))
	var batch pgx.Batch
	for n, i := range chunk {
		keys[n] = escape(reqs[i].Key)
		batch.Queue(s.sql.take, takeArgs(&reqs[i], s.skew)...).Query(func(rows pgx.Rows) (err error) {
			w.Heard()
			taken[i], err = readTook(rows)
			return err
		})
	}
	batch.Queue(s.sql.look, keys).Query(func(rows pgx.Rows) error { return readSightings(rows, w, seen) })
	err := conn.SendBatch(w.Context(), &batch).Close()
	return taken, seen, err
}

// judge returns what is to be answered to a claim on the key as seen; not final if the key is to be taken.
func (s *Store) judge(req *store.ClaimRequest, found *sighting) (res store.ClaimResult, final bool) {
	verdict, res := store.Judge(req, &found.rec, found.now, s.skew)
	if verdict == store.VerdictMismatch {
		res.Err = fmt.Errorf("pgstore: %w: key %q, token %d, first claimed from %s", store.ErrFingerprintMismatch, req.Key, found.rec.Token, found.rec.Source)
	}
	return res, verdict != store.VerdictTake
}

// Settle implements store.Store. Up to MaxBatchSize settlements, with up to 1 MiB of results unless one is larger, are one round trip and
// one transaction; where some are refused, one more look tells why. A completion with a handler's transaction, or with its claim, is a
// round trip and a transaction of its own; all that are given together are made at the same time.
func (s *Store) Settle(ctx context.Context, ss []store.Settlement) []error {
	errs := make([]error, len(ss))
	failed := false
	wait := s.settleTransactions(ctx, ss, errs)
	order := slices.DeleteFunc(byKey(len(ss), func(i int) string { return ss[i].Key }), func(i int) bool { return isTransactional(&ss[i]) })
	for from, to := range chunks.Of(len(order), MaxBatchSize, func(n int) int { return len(ss[order[n]].Result) }) {
		s.settleChunk(ctx, ss, order[from:to], errs)
	}
	wait()
	for _, err := range errs {
		failed = failed || err != nil
	}
	if !failed {
		return nil
	}
	return errs
}

func (s *Store) settleChunk(ctx context.Context, ss []store.Settlement, chunk []int, errs []error) {
	var refused []int
	err := s.send(ctx, s.limit, func(w *silence.Watch, conn *pgx.Conn) error {
		refused = refused[:0]
		var batch pgx.Batch
		for _, i := range chunk {
			s.sql.queue(&batch, &ss[i], func(done bool) {
				w.Heard()
				if !done {
					refused = append(refused, i)
				}
			})
		}
		return conn.SendBatch(w.Context(), &batch).Close()
	})
	if err != nil {
		for _, i := range chunk {
			errs[i] = s.explain(ss[i].Op.String(), ss[i].Key, err)
		}
		return
	}
	if len(refused) > 0 {
		s.whyRefused(ctx, ss, refused, errs)
	}
}

// whyRefused tells settlements that have landed before from those whose owner no longer holds the key.
func (s *Store) whyRefused(ctx context.Context, ss []store.Settlement, refused []int, errs []error) {
	keys := make([]string, len(refused))
	for n, i := range refused {
		keys[n] = ss[i].Key
	}
	seen, err := s.lookAt(ctx, keys)
	for _, i := range refused {
		if err != nil {
			errs[i] = s.explain(ss[i].Op.String(), ss[i].Key, err)
			continue
		}
		found, there := seen[ss[i].Key]
		errs[i] = refusal(&ss[i], &found.rec, there)
	}
}

// refusal is what a refused settlement means, by the key as it is.
func refusal(set *store.Settlement, seen *store.Entry, there bool) error {
	if there && store.OwnSettlement(set, seen) {
		return nil
	}
	return fmt.Errorf("pgstore: %s: %w", set.Op, &store.FencedError{Key: set.Key, Token: set.Token, Current: *seen})
}

// lookAt reads what is stored under keys.
func (s *Store) lookAt(ctx context.Context, keys []string) (map[string]sighting, error) {
	seen := make(map[string]sighting, len(keys))
	escaped := make([]string, len(keys))
	for i, k := range keys {
		escaped[i] = escape(k)
	}
	err := s.send(ctx, s.limit, func(w *silence.Watch, conn *pgx.Conn) error {
		clear(seen)
		rows, err := conn.Query(w.Context(), s.sql.look, escaped)
		if err != nil {
			return err
		}
		return readSightings(rows, w, seen)
	})
	return seen, err
}

// nilIfEmpty returns nil for no bytes, so that they take no room.
func nilIfEmpty(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return bytes.Clone(b)
}

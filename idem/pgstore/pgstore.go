// Package pgstore keeps idempotency state in a table of a PostgreSQL database, version 15 or later. It holds
// a key by a lease, like the other stores. A new key costs two round trips, a duplicate one. A batch costs as
// many round trips as a single key.
//
// A handler that calls [TxFrom] writes in the transaction that completes its key, so that effect and
// completion are committed together or not at all. This costs one more round trip. A handler that needs no
// answers of the server passes its statements to [Enlist]: they cost no round trip of their own. A bulk
// handler can have one transaction for all records of its call.
//
// All times are those of the server's clock. [Migrate] creates the table; no other function does.
// [Store.Check] reports whether the table is up to date.
package pgstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/internal/chunks"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/network/silence"
	"github.com/idemsk/idemsk/internal/pg/pgmigrate"
	"github.com/idemsk/idemsk/internal/pg/pgtrip"
)

// DefaultTable is the default of Config.Table.
const DefaultTable = "idemsk"

// DefaultRoundTripTimeout is the default of Config.RoundTripTimeout.
const DefaultRoundTripTimeout = 2 * time.Second

// maxBatchSize is the number of claims or settlements that callers gather, and the maximum number of
// settlements in one round trip and one transaction. maxClaims is that of claims: a bulk handler claims the
// records of a call together.
const (
	maxBatchSize = 100
	maxClaims    = 1000
)

// Config configures a Store. The zero value of a field selects its default.
type Config struct {
	// Table is the table's name, or schema.name (default DefaultTable). A name has up to 48 letters, digits,
	// '_' and '-'. It is case-sensitive.
	Table string
	// MaxClockSkew bounds the difference between the clocks of two servers (default
	// store.DefaultMaxClockSkew; -1: no difference). It matters when a standby takes over from the primary. A
	// lease ends for other owners this much later than for its own.
	MaxClockSkew time.Duration
	// RoundTripTimeout bounds the time without an answer in a round trip (default DefaultRoundTripTimeout, at
	// least 1 ms). The round trip is then retried on a new connection, up to three tries in all. The time to
	// get a connection is not included: the pool's connect_timeout bounds it.
	RoundTripTimeout time.Duration
	// IdleLimit bounds the time between two statements of a handler's transaction (default DefaultIdleLimit,
	// at least 1 ms). The server ends a transaction that exceeds it. It bounds how long the locks of a failed
	// host are held.
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
	slots chan struct{} // one element for each handler's transaction

	groups groupSize
	sent   sentTexts
	known  atomic.Pointer[settings] // nil before they are read
}

var (
	_ store.Store          = (*Store)(nil)
	_ store.Batcher        = (*Store)(nil)
	_ store.CallTransactor = (*Store)(nil)
	_ store.Admin          = (*Store)(nil)
)

// New returns a store on a table. It does not access the table. It returns idem.ErrInvalidConfig, which names
// every invalid field. The caller closes the pool. A handler that has called TxFrom holds a connection of the
// pool until its key is settled. One connection is reserved for claims, heartbeats and settlements: up to
// MaxConns-1 handlers have a transaction at the same time, and others wait.
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
		errs = append(errs, fmt.Errorf("MaxClockSkew is %v: want 0 or more, or -1 for none",
			cfg.MaxClockSkew))
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
	s := &Store{pool: pgtrip.New(pool, cfg.RoundTripTimeout), table: table, skew: max(0, cfg.MaxClockSkew),
		limit: cfg.RoundTripTimeout}
	s.sql = newStatements(table, serverClock)
	s.idle = fmt.Sprintf("%dms", cfg.IdleLimit.Milliseconds())
	s.slots = make(chan struct{}, pool.Config().MaxConns-1)
	return s, nil
}

// ValidTable reports whether name is valid as Config.Table.
func ValidTable(name string) bool { _, err := pgmigrate.ParseTable(name); return err == nil }

// Table returns the name of the store's table.
func (s *Store) Table() string { return s.table.String() }

// MaxClockSkew returns the effective clock skew.
func (s *Store) MaxClockSkew() time.Duration { return s.skew }

// BatchSize implements store.Batcher.
func (s *Store) BatchSize() int { return maxBatchSize }

// maxRounds bounds how often a claim is retried because its key changed between the attempt and the read. In
// every round another owner claimed or settled the key; after the last one the claim is answered as in
// flight.
const maxRounds = 8

// Claim implements store.Store. Up to 1,000 claims are one round trip and one transaction, which fail
// together.
func (s *Store) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	results := make([]store.ClaimResult, len(reqs))
	left := byKey(len(reqs), func(i int) string { return reqs[i].Key })
	for range maxRounds {
		var again []int
		for chunk := range slices.Chunk(left, maxClaims) {
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

// byKey returns the indices of n elements in the order of their keys. Transactions that lock rows in the same
// order do not deadlock.
func byKey(n int, key func(i int) string) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(key(a), key(b)) })
	return order
}

// claimChunk tries to take each key, and judges those that were not taken. It returns the keys that other
// transactions wrote meanwhile.
func (s *Store) claimChunk(ctx context.Context, reqs []store.ClaimRequest, chunk []int,
	results []store.ClaimResult) (again []int) {
	answers := make(map[string]claimAnswer, len(chunk))
	args := takeArgs(reqs, chunk, s.skew)
	err := s.send(ctx, s.limit, func(w *silence.Watch, conn *pgx.Conn) error {
		clear(answers)
		rows, err := conn.Query(w.Context(), s.sql.take, args...)
		if err != nil {
			return err
		}
		return readClaims(rows, w, answers)
	})
	for _, i := range chunk {
		req := &reqs[i]
		if err != nil {
			results[i] = s.unclaimed(req, err)
			continue
		}
		var final bool
		if results[i], final = s.claimed(req, answers); !final {
			again = append(again, i)
		}
	}
	return again
}

// claimed returns the answer to a claim. It is not final if the key can be taken.
func (s *Store) claimed(req *store.ClaimRequest, answers map[string]claimAnswer) (res store.ClaimResult,
	final bool) {
	answer, there := answers[req.Key]
	switch {
	case !there:
		return res, false
	case answer.foreign != nil:
		return store.ClaimResult{Err: s.explain("claim", req.Key, answer.foreign)}, true
	case answer.row == rowFresh:
		return store.ClaimResult{State: store.Claimed, Entry: store.Fresh(req, answer.now)}, true
	case answer.row == rowFound:
		return s.judge(req, &answer.sighting)
	}
	res = store.ClaimResult{State: store.Claimed, Entry: answer.entry, Stolen: answer.row == rowStolen}
	return res, true
}

// contendedFor is the time until the next claim of a key after conflicts with all tries.
const contendedFor = 100 * time.Millisecond

// unclaimed returns the answer to a claim that failed. A key that other transactions write is in flight.
func (s *Store) unclaimed(req *store.ClaimRequest, err error) store.ClaimResult {
	if conflicting(err) {
		return store.ClaimResult{State: store.ClaimInFlight, ClaimableIn: contendedFor}
	}
	return store.ClaimResult{Err: s.explain("claim", req.Key, err)}
}

// judge returns the answer to a claim by the entry that was read. The answer is not final if the key can be
// taken.
func (s *Store) judge(req *store.ClaimRequest, found *sighting) (res store.ClaimResult, final bool) {
	verdict, res := store.Judge(req, &found.entry, found.now, s.skew)
	if verdict == store.VerdictMismatch {
		res.Err = fmt.Errorf("pgstore: %w: key %q, token %d, first claimed from %s",
			store.ErrFingerprintMismatch, req.Key, found.entry.Token, found.entry.Source)
	}
	return res, verdict != store.VerdictTake
}

// Settle implements store.Store. Up to 100 settlements, with up to 1 MiB of results in all or one larger
// result, are one round trip and one transaction. If some are refused, one more read finds out why. So are up
// to 100 completions with enlisted statements. A completion that has a handler's transaction is a round trip
// and a transaction of its own, and so are all completions of a call with one transaction. Those of one call
// of Settle are made concurrently.
func (s *Store) Settle(ctx context.Context, ss []store.Settlement) []error {
	errs := make([]error, len(ss))
	failed := false
	wait := s.settleEffects(ctx, ss, errs)
	order := slices.DeleteFunc(byKey(len(ss), func(i int) string { return ss[i].Key }),
		func(i int) bool { return ss[i].Effect != nil })
	for from, to := range chunks.Of(len(order), maxBatchSize,
		func(n int) int { return len(ss[order[n]].Result) }) {
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
		var completions []int
		for _, i := range chunk {
			if ss[i].Op == store.OpComplete {
				completions = append(completions, i)
				continue
			}
			s.sql.queue(&batch, &ss[i], func(done bool) {
				w.Heard()
				if !done {
					refused = append(refused, i)
				}
			})
		}
		if len(completions) > 0 {
			batch.Queue(s.sql.complete, completeArgs(ss, completions)...).Query(func(rows pgx.Rows) error {
				w.Heard()
				left, err := notCompleted(rows, w, ss, completions)
				refused = append(refused, left...)
				return err
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

// notCompleted reads the rows of statements.complete, closes them, and returns the completions that were refused.
func notCompleted(rows pgx.Rows, w *silence.Watch, ss []store.Settlement, completions []int) (refused []int,
	err error) {
	keys, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (key string, err error) {
		w.Heard()
		err = row.Scan(&key)
		return unescape(key), err
	})
	if err != nil || len(keys) == len(completions) {
		return nil, err
	}
	for _, i := range completions {
		if !slices.Contains(keys, ss[i].Key) {
			refused = append(refused, i)
		}
	}
	return refused, nil
}

// whyRefused distinguishes settlements that were applied before from those whose owner no longer holds the
// key.
func (s *Store) whyRefused(ctx context.Context, ss []store.Settlement, refused []int, errs []error) {
	seen, err := s.lookAt(ctx, keysOf(ss, refused))
	for _, i := range refused {
		errs[i] = s.whyOne(&ss[i], seen, err)
	}
}

// whyOne returns the error of a refused settlement by the entries that were read, or by the error of reading. It
// returns nil if the settlement was applied before.
func (s *Store) whyOne(set *store.Settlement, seen map[string]sighting, err error) error {
	found, there := seen[set.Key]
	switch {
	case err != nil:
		return s.explain(set.Op.String(), set.Key, err)
	case found.foreign != nil:
		return s.explain(set.Op.String(), set.Key, found.foreign)
	case there && store.OwnSettlement(set, &found.entry):
		return nil
	}
	return fmt.Errorf("pgstore: %s: %w", set.Op,
		&store.FencedError{Key: set.Key, Token: set.Token, Current: found.entry})
}

// keysOf returns the keys of the settlements with these indices.
func keysOf(ss []store.Settlement, chunk []int) []string {
	keys := make([]string, len(chunk))
	for n, i := range chunk {
		keys[n] = ss[i].Key
	}
	return keys
}

// lookAtOne reads the entry of a key.
func (s *Store) lookAtOne(ctx context.Context, key string) (found sighting, there bool, err error) {
	seen, err := s.lookAt(ctx, []string{key})
	found, there = seen[key]
	return found, there, cmp.Or(err, found.foreign)
}

// lookAt reads the entries of keys.
func (s *Store) lookAt(ctx context.Context, keys []string) (map[string]sighting, error) {
	seen := make(map[string]sighting, len(keys))
	escaped := escapeAll(keys)
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

// nilIfEmpty returns nil for an empty slice, so that it is stored as NULL.
func nilIfEmpty(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return bytes.Clone(b)
}

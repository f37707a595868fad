// Package redisstore keeps idempotency state in Redis, version 7 or later, or Valkey: one server, one with replicas, or a
// cluster.
//
// A key is one hash: lock, attempts and result. Each transition is one Lua script at the server, which looks and writes in one
// step, by the server's clock. A fresh record costs two round trips, a duplicate one; a batch is one pipeline, which costs as
// many as a single record does.
//
// What Redis promises is less than what DynamoDB or PostgreSQL do: a failover loses the writes that its replica had not got,
// and a crash those that were not on disk. A key whose completion is lost runs again. See docs/stores-redis.md for the settings
// that narrow it, and [Store.Check] for what it can see of them.
package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"time"

	"github.com/idemsk/idemsk/idem/store"

	"github.com/redis/go-redis/v9"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/chunks"
)

// DefaultPrefix is what the names of keys begin with unless Config says otherwise.
const DefaultPrefix = "idemsk"

// MaxBatchSize is how many claims or settlements go in one pipeline: as many as an MSK event has records by default, some
// 30 KB. The server answers others between the commands of a pipeline, so that it is not the server that bounds it, but what
// is sent again when a connection breaks.
const MaxBatchSize = 100

// Config configures a Store. Every field's zero value stands for its default.
type Config struct {
	// Prefix is what the names of the store's keys begin with (default DefaultPrefix): up to 128 letters, digits, '_', '.',
	// ':' and '-'. The key k is kept under Prefix:{k}, which makes k its hash tag.
	Prefix string
	// MaxClockSkew is the most by which the clocks of two servers differ (default store.DefaultMaxClockSkew; -1: not at all).
	// One server has one clock; what counts is that of the replica that takes over from it, or of the node that a slot moves
	// to. A lease ends for others so much later than for its owner.
	MaxClockSkew time.Duration
}

// Store is a store in Redis or Valkey. It is safe for concurrent use.
type Store struct {
	client  redis.UniversalClient
	prefix  string
	skew    time.Duration
	scripts *scripts
}

var (
	_ store.Store   = (*Store)(nil)
	_ store.Batcher = (*Store)(nil)
	_ store.Admin   = (*Store)(nil)
)

var prefixes = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,128}$`)

// ValidPrefix reports whether prefix can be a Config's Prefix.
func ValidPrefix(prefix string) bool { return prefixes.MatchString(prefix) }

// New returns a store, without asking the server: see Check. It returns idem.ErrInvalidConfig, naming every field at fault. The
// client stays the caller's. NewClient makes one that fits the time a function has; any other will do that is not a *redis.Ring.
func New(client redis.UniversalClient, cfg Config) (*Store, error) {
	cfg.Prefix = cmp.Or(cfg.Prefix, DefaultPrefix)
	cfg.MaxClockSkew = cmp.Or(cfg.MaxClockSkew, store.DefaultMaxClockSkew)
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	_, ring := client.(*redis.Ring)
	bad(!isNil(client), "the client is nil")
	bad(!ring, "the client is a Ring: keys would move to another server, and be forgotten, whenever one is out of reach")
	bad(ValidPrefix(cfg.Prefix), "Prefix is %q: want 1 to 128 letters, digits, '_', '.', ':' or '-'", cfg.Prefix)
	bad(cfg.MaxClockSkew >= -1, "MaxClockSkew is %v: want 0 or more, or -1 for none", cfg.MaxClockSkew)
	if len(errs) > 0 {
		return nil, fmt.Errorf("redisstore: %w: %w", idem.ErrInvalidConfig, errors.Join(errs...))
	}
	return &Store{client: client, prefix: cfg.Prefix, skew: max(0, cfg.MaxClockSkew), scripts: newScripts(serverClock)}, nil
}

// isNil reports whether there is no client, in an interface or behind it: NewClient's result is an interface.
func isNil(client redis.UniversalClient) bool {
	if client == nil {
		return true
	}
	v := reflect.ValueOf(client)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// Prefix returns what the names of the store's keys begin with.
func (s *Store) Prefix() string { return s.prefix }

// MaxClockSkew returns the skew in force.
func (s *Store) MaxClockSkew() time.Duration { return s.skew }

// BatchSize implements store.Batcher.
func (s *Store) BatchSize() int { return MaxBatchSize }

// Claim implements store.Store. Up to MaxBatchSize claims are one round trip, and one more for each MiB of stored results that are larger
// than 4 KiB.
func (s *Store) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	results := make([]store.ClaimResult, 0, len(reqs))
	for chunk := range slices.Chunk(reqs, MaxBatchSize) {
		calls := make([]call, len(chunk))
		for i := range chunk {
			calls[i] = s.claimCall(&chunk[i])
		}
		s.run(ctx, calls)
		for i := range chunk {
			results = append(results, s.claimed(ctx, &chunk[i], &calls[i]))
		}
	}
	return results
}

func (s *Store) claimCall(req *store.ClaimRequest) call {
	var fingerprint []byte
	if !req.Fingerprint.IsZero() {
		fingerprint = req.Fingerprint[:]
	}
	return call{script: &s.scripts.claim, key: req.Key, args: []any{
		req.Owner, fingerprint, req.Source, req.Lease.Milliseconds(), ceilMillis(req.Retention), req.Redrive,
		flag(req.TakeOver), ceilMillis(s.skew),
	}}
}

// claimed is what a claim's answer means.
func (s *Store) claimed(ctx context.Context, req *store.ClaimRequest, c *call) store.ClaimResult {
	if c.err != nil {
		return store.ClaimResult{Err: s.explain(ctx, "claim", req.Key, c.err)}
	}
	a := &c.answer
	res := store.ClaimResult{Entry: a.rec, ClaimableIn: a.wait}
	switch a.what {
	case "claimed":
		res.State = store.Claimed
	case "stolen":
		res.State, res.Stolen = store.Claimed, true
	case "inflight":
		res.State = store.ClaimInFlight
	case "leaseover":
		res.State = store.ClaimLeaseOver
	case "completed":
		res.State = store.ClaimCompleted
	case "failed":
		res.State = store.ClaimFailed
	case "mismatch":
		res.Err = fmt.Errorf("redisstore: %w: key %q, token %d, first claimed from %s", store.ErrFingerprintMismatch, req.Key, a.rec.Token, a.rec.Source)
	default:
		res.Err = s.explain(ctx, "claim", req.Key, unknownAnswer(a.what))
	}
	return res
}

// Settle implements store.Store. Up to MaxBatchSize settlements, with up to 1 MiB of results unless one is larger, are one round trip.
func (s *Store) Settle(ctx context.Context, ss []store.Settlement) []error {
	errs := make([]error, 0, len(ss))
	for from, to := range chunks.Of(len(ss), MaxBatchSize, func(i int) int { return len(ss[i].Result) }) {
		chunk := ss[from:to]
		calls := make([]call, len(chunk))
		for i := range chunk {
			calls[i] = s.settleCall(&chunk[i])
		}
		s.run(ctx, calls)
		for i := range chunk {
			errs = append(errs, s.settled(ctx, &chunk[i], &calls[i]))
		}
	}
	if slices.IndexFunc(errs, func(err error) bool { return err != nil }) < 0 {
		return nil
	}
	return errs
}

func (s *Store) settleCall(set *store.Settlement) call {
	span := set.Delay
	if set.Op == store.OpExtend {
		span = set.Lease
	}
	var f store.Failure
	if set.Failure != nil {
		f = *set.Failure
	}
	return call{script: &s.scripts.settle, key: set.Key, args: []any{
		set.Op.String(), set.Token, set.Owner, ceilMillis(set.Retention), span.Milliseconds(), ceilMillis(s.skew),
		flag(set.Refund), set.Result, set.ResultOmitted, flag(set.Failure != nil), f.Code, f.Message,
	}}
}

// settled is what a settlement's answer means.
func (s *Store) settled(ctx context.Context, set *store.Settlement, c *call) error {
	if c.err != nil {
		return s.explain(ctx, set.Op.String(), set.Key, c.err)
	}
	switch a := &c.answer; a.what {
	case "done":
		return nil
	case "fenced":
		return fmt.Errorf("redisstore: %s: %w", set.Op, &store.FencedError{Key: set.Key, Token: set.Token, Current: a.rec})
	}
	return s.explain(ctx, set.Op.String(), set.Key, unknownAnswer(c.answer.what))
}

// name returns the name under which a key is kept. Whatever is in the key: a script touches one name, so that the hash tag need
// not be the whole of it.
func (s *Store) name(key string) string { return s.prefix + ":{" + key + "}" }

// ceilMillis returns d in milliseconds, rounded up: no retention and no skew is ever shortened.
func ceilMillis(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d > time.Duration(ms)*time.Millisecond {
		ms++
	}
	return ms
}

func flag(on bool) string {
	if on {
		return "1"
	}
	return ""
}

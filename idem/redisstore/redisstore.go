// Package redisstore stores idempotency keys in Redis 7 or later, or Valkey: a single server, a primary with
// replicas, or a cluster.
//
// A key is one string with lock, attempts and result, in a form of its own; `idemsk get` shows it. A Lua script
// makes the transitions of up to 50 keys, in a cluster of one. It reads and writes atomically and uses the
// server's clock. A new key costs two round trips, a duplicate costs one. A batch is one pipeline and costs the
// same number of round trips.
//
// Redis guarantees less than DynamoDB or PostgreSQL: a failover loses the writes that were not replicated,
// and a crash loses those that were not on disk. If a completion is lost, the task runs again.
// docs/stores-redis.md has the settings that reduce this risk. [Store.Check] checks those that the server
// reports.
package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/internal/chunks"
	"github.com/idemsk/idemsk/idem/store"
)

// DefaultPrefix is the prefix of the names if Config.Prefix is empty.
const DefaultPrefix = "idemsk"

// maxBatchSize is the maximum number of claims or settlements in one pipeline. It is the default batch size
// of an MSK event source, about 30 KB. It limits what is sent again after a broken connection.
const maxBatchSize = 100

// Config configures a Store. The zero value of a field means its default.
type Config struct {
	// Prefix is the prefix of the names of the store's keys: up to 128 letters, digits, '_', '.', ':' and
	// '-'. The key k has the name Prefix:{k}, so k is its hash tag. Default: DefaultPrefix.
	Prefix string
	// MaxClockSkew is the maximum difference between the clocks of two servers: a primary and the replica
	// that replaces it, or the nodes between which a slot moves. It delays the end of a lease for other
	// owners. Default: store.DefaultMaxClockSkew; -1 means 0.
	MaxClockSkew time.Duration
}

// Store is a store in Redis or Valkey. It is safe for concurrent use.
type Store struct {
	client  redis.UniversalClient
	prefix  string
	skew    time.Duration
	scripts *scripts
	slots   atomic.Bool // the server is a cluster: a script has one key
}

var (
	_ store.Store   = (*Store)(nil)
	_ store.Batcher = (*Store)(nil)
	_ store.Admin   = (*Store)(nil)
)

var prefixes = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,128}$`)

// ValidPrefix reports whether prefix is valid for Config.Prefix.
func ValidPrefix(prefix string) bool { return prefixes.MatchString(prefix) }

// New returns a store. It sends no request; see Check. If cfg is invalid, it returns idem.ErrInvalidConfig
// (wrapped) and names every invalid field. The caller closes the client. NewClient returns a client whose
// timeouts fit an invocation. Any other client works too, except a *redis.Ring.
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
	bad(!ring, "the client is a Ring: when a server is unavailable, keys move to another server, and their state is lost")
	bad(ValidPrefix(cfg.Prefix), "Prefix is %q: want 1 to 128 letters, digits, '_', '.', ':' or '-'",
		cfg.Prefix)
	bad(cfg.MaxClockSkew >= -1, "MaxClockSkew is %v: want 0 or more, or -1 for none", cfg.MaxClockSkew)
	if len(errs) > 0 {
		return nil, fmt.Errorf("redisstore: %w: %w", idem.ErrInvalidConfig, errors.Join(errs...))
	}
	return &Store{client: client, prefix: cfg.Prefix, skew: max(0, cfg.MaxClockSkew),
		scripts: newScripts(serverClock, ceilMillis(max(0, cfg.MaxClockSkew)))}, nil
}

// isNil reports whether client is nil or holds a nil pointer.
func isNil(client redis.UniversalClient) bool {
	if client == nil {
		return true
	}
	v := reflect.ValueOf(client)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// Prefix returns the prefix of the names of the store's keys.
func (s *Store) Prefix() string { return s.prefix }

// MaxClockSkew returns the configured maximum clock skew, with the default applied.
func (s *Store) MaxClockSkew() time.Duration { return s.skew }

// BatchSize implements store.Batcher.
func (s *Store) BatchSize() int { return maxBatchSize }

// Claim implements store.Store. Up to 100 claims take one round trip. Stored results larger than 4 KiB take
// one more round trip for each MiB.
func (s *Store) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	results := make([]store.ClaimResult, 0, len(reqs))
	for chunk := range slices.Chunk(reqs, maxBatchSize) {
		calls := make([]call, len(chunk))
		for i := range chunk {
			if calls[i].err = fits(chunk[i].Owner, chunk[i].Source); calls[i].err == nil {
				calls[i].key, calls[i].ask = chunk[i].Key, claimAsk(&chunk[i])
			}
		}
		s.run(ctx, &s.scripts.claim, calls)
		for i := range chunk {
			results = append(results, s.claimed(ctx, &chunk[i], &calls[i]))
		}
	}
	return results
}

// claimed returns the result of a claim from its answer.
func (s *Store) claimed(ctx context.Context, req *store.ClaimRequest, c *call) store.ClaimResult {
	if c.err != nil {
		return store.ClaimResult{Err: s.explain(ctx, "claim", req.Key, c.err)}
	}
	a := &c.answer
	res := store.ClaimResult{Entry: a.entry}
	switch {
	case a.what == fresh:
		res.State, res.Entry = store.Claimed, newEntry(req, time.UnixMilli(a.time))
	case a.what == claimed:
		res.State = store.Claimed
	case a.what == stolen:
		res.State, res.Stolen = store.Claimed, true
	case a.what == inFlight:
		res.State, res.ClaimableIn = store.ClaimInFlight, time.Duration(a.time)*time.Millisecond
	case a.what == leaseOver:
		res.State = store.ClaimLeaseOver
	case a.what == done && a.entry.Status == store.StatusCompleted:
		res.State = store.ClaimCompleted
	case a.what == done && a.entry.Status == store.StatusFailed:
		res.State = store.ClaimFailed
	case a.what == mismatch:
		res.Err = fmt.Errorf("redisstore: %w: key %q, token %d, first claimed from %s",
			store.ErrFingerprintMismatch, req.Key, a.entry.Token, a.entry.Source)
	default:
		res.Err = s.explain(ctx, "claim", req.Key, errAnswer)
	}
	return res
}

// Settle implements store.Store. Up to 100 settlements with up to 1 MiB of results together, or a single
// larger one, take one round trip.
func (s *Store) Settle(ctx context.Context, ss []store.Settlement) []error {
	errs := make([]error, 0, len(ss))
	for from, to := range chunks.Of(len(ss), maxBatchSize, func(i int) int { return len(ss[i].Result) }) {
		chunk := ss[from:to]
		calls := make([]call, len(chunk))
		for i := range chunk {
			if calls[i].err = fits(chunk[i].Owner, ""); calls[i].err == nil {
				calls[i].key, calls[i].ask = chunk[i].Key, settleAsk(&chunk[i])
			}
		}
		s.run(ctx, &s.scripts.settle, calls)
		for i := range chunk {
			errs = append(errs, s.settled(ctx, &chunk[i], &calls[i]))
		}
	}
	if slices.IndexFunc(errs, func(err error) bool { return err != nil }) < 0 {
		return nil
	}
	return errs
}

// settled returns the error of a settlement from its answer.
func (s *Store) settled(ctx context.Context, set *store.Settlement, c *call) error {
	if c.err != nil {
		return s.explain(ctx, set.Op.String(), set.Key, c.err)
	}
	switch a := &c.answer; a.what { //nolint:exhaustive // the others are of claims
	case done:
		return nil
	case fenced:
		return fmt.Errorf("redisstore: %s: %w", set.Op,
			&store.FencedError{Key: set.Key, Token: set.Token, Current: a.entry})
	}
	return s.explain(ctx, set.Op.String(), set.Key, errAnswer)
}

// name returns the name of a key at the server. A key with braces has another hash tag, which is valid too,
// because each script uses only one name.
func (s *Store) name(key string) string { return s.prefix + ":{" + key + "}" }

// ceilMillis returns d in milliseconds, rounded up, so that no retention and no skew is shortened.
func ceilMillis(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d > time.Duration(ms)*time.Millisecond {
		ms++
	}
	return ms
}

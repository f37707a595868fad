package redisstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemsk/idemsk/idem/store"
)

// pageSize is the COUNT of each SCAN: the number of names that the server looks at for one page.
const pageSize = 500

// Get implements store.Admin with one read.
func (s *Store) Get(ctx context.Context, key string) (store.Entry, error) {
	text, err := s.client.Get(ctx, s.name(key)).Result()
	if errors.Is(err, redis.Nil) {
		return store.Entry{}, fmt.Errorf("redisstore: get under %s: %w: %q", s.prefix, store.ErrNotFound, key)
	}
	if err != nil {
		return store.Entry{}, s.explain(ctx, "get", key, err)
	}
	entry, err := decode(key, text)
	if err != nil {
		return store.Entry{}, s.explain(ctx, "get", key, err)
	}
	return entry, nil
}

// List implements store.Admin with SCAN on each primary. It visits all names on the server, including those
// of other programs, and reads every value of the store. It reads in pages, so it does not block other
// clients. It may miss an entry that is written meanwhile. It may yield an entry twice if the server resizes
// its tables or a slot moves.
func (s *Store) List(ctx context.Context, q store.ListQuery) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		fail := func(err error) {
			yield(store.Entry{}, fmt.Errorf("redisstore: list under %s: %w%s", s.prefix, withCause(ctx, err),
				hint(ctx, err)))
		}
		now, err := s.now(ctx)
		if err != nil {
			fail(err)
			return
		}
		for entry, err := range s.all(ctx) {
			if err != nil {
				fail(err)
				return
			}
			if q.Matches(&entry, now) && !yield(entry, nil) {
				return
			}
		}
	}
}

// all yields every entry of the store. The caller stops after an error.
func (s *Store) all(ctx context.Context) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		primaries, err := s.primaries(ctx)
		if err != nil {
			yield(store.Entry{}, err)
			return
		}
		for _, primary := range primaries {
			for cursor, more := uint64(0), true; more; more = cursor != 0 {
				var names []string
				if names, cursor, err = primary.ScanType(ctx, cursor, s.prefix+":{*}", pageSize,
					"string").Result(); err != nil {
					yield(store.Entry{}, err)
					return
				}
				if !s.yieldPage(ctx, names, yield) {
					return
				}
			}
		}
	}
}

// yieldPage reads and yields the entries of these names.
func (s *Store) yieldPage(ctx context.Context, names []string, yield func(store.Entry, error) bool) bool {
	for chunk := range slices.Chunk(names, maxBatchSize) {
		for i, v := range s.readValues(ctx, chunk) {
			if v.err == nil && v.text == "" {
				continue // deleted meanwhile
			}
			var entry store.Entry
			if v.err == nil {
				entry, v.err = decode(s.keyOf(chunk[i]), v.text)
			}
			if !yield(entry, v.err) {
				return false
			}
		}
	}
	return true
}

// keyOf is the inverse of name.
func (s *Store) keyOf(name string) string {
	return strings.TrimSuffix(strings.TrimPrefix(name, s.prefix+":{"), "}")
}

// primaries returns a client for each primary.
func (s *Store) primaries(ctx context.Context) ([]redis.UniversalClient, error) {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return []redis.UniversalClient{s.client}, nil
	}
	var mu sync.Mutex
	var all []redis.UniversalClient
	err := cluster.ForEachMaster(ctx, func(_ context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, c)
		return nil
	})
	return all, err
}

// now returns the time that the scripts use.
func (s *Store) now(ctx context.Context) (time.Time, error) {
	ms, err := redis.NewScript(s.scripts.time.text).Run(ctx, s.client, nil).Int64()
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMilli(ms), nil
}

// Delete implements store.Admin with one script.
func (s *Store) Delete(ctx context.Context, key string, token int64) error {
	calls := []call{{key: key, ask: appendToken(nil, token)}}
	s.run(ctx, &s.scripts.remove, calls)
	if err := calls[0].err; err != nil {
		return s.explain(ctx, "delete", key, err)
	}
	switch a := &calls[0].answer; a.what { //nolint:exhaustive // the others are of claims
	case done:
		return nil
	case absent:
		return fmt.Errorf("redisstore: delete under %s: %w: %q", s.prefix, store.ErrNotFound, key)
	case fenced:
		return fmt.Errorf("redisstore: delete: %w",
			&store.FencedError{Key: key, Token: token, Current: a.entry})
	}
	return s.explain(ctx, "delete", key, errAnswer)
}

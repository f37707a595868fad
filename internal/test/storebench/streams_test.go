//go:build servers

package storebench

import (
	"context"
	"slices"
	"strconv"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/test/redisserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

const concurrently = 256 // handlers

// BenchmarkStreams measures the throughput of each store with fresh records, as in a consumer process: an
// operation is a record, in one of 1,000 lanes, whose handler does nothing. The loops on Redis are what a team
// writes by hand: a Lua call that marks the new keys of a poll of 500 as started, and one that marks them as
// done.
func BenchmarkStreams(b *testing.B) {
	synced := map[string]string{"appendonly": "yes", "appendfsync": "always"}
	for _, way := range []struct {
		name string
		run  func(b *testing.B)
	}{
		{"memory", func(b *testing.B) { stream(b, memstore.New(memstore.Config{BatchSize: 25})) }},
		{"Redis loop", func(b *testing.B) { redisLoop(b, redisserver.Redis, nil) }},
		{"Redis", func(b *testing.B) { stream(b, redis(b, redisserver.Redis, nil)) }},
		{"Redis loop, appendfsync always", func(b *testing.B) { redisLoop(b, redisserver.Redis, synced) }},
		{"Redis, appendfsync always", func(b *testing.B) { stream(b, redis(b, redisserver.Redis, synced)) }},
		{"Valkey loop", func(b *testing.B) { redisLoop(b, redisserver.Valkey, nil) }},
		{"Valkey", func(b *testing.B) { stream(b, redis(b, redisserver.Valkey, nil)) }},
		{"Redis loop, duplicates", func(b *testing.B) { redisReads(b, redisserver.Redis) }},
		{"Redis, duplicates", func(b *testing.B) { duplicates(b, redis(b, redisserver.Redis, nil)) }},
		{"Valkey loop, duplicates", func(b *testing.B) { redisReads(b, redisserver.Valkey) }},
		{"Valkey, duplicates", func(b *testing.B) { duplicates(b, redis(b, redisserver.Valkey, nil)) }},
		{"PostgreSQL", func(b *testing.B) { stream(b, onPostgres(b)) }},
		{"DynamoDB Local", func(b *testing.B) { stream(b, dynamoDBLocal(b)) }},
	} {
		b.Run(way.name, func(b *testing.B) {
			way.run(b)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// stream takes records through a scheduler whose handlers do nothing.
func stream(b *testing.B, st store.Store) { through(b, idem.Executed, st) }

// duplicates takes records through a scheduler that were handled before.
func duplicates(b *testing.B, st store.Store) {
	through(b, idem.Executed, st)
	through(b, idem.Replayed, st)
}

func through(b *testing.B, want idem.Kind, st store.Store) {
	streamOf(b, want, st, idem.Config{CommitWindow: idem.DefaultCommitWindow(concurrently)}, idem.SchedulerConfig{Concurrency: concurrently},
		func(context.Context, string) error { return nil })
}

var (
	startNew = goredis.NewScript(`local new = {}
for i, key in ipairs(KEYS) do
	new[i] = redis.call('SET', key, 'started', 'NX', 'EX', 604800) and 1 or 0
end
return new`)
	done = goredis.NewScript(`for _, key in ipairs(KEYS) do redis.call('SET', key, 'done', 'EX', 604800) end`)
)

func redisClient(b *testing.B, kind redisserver.Kind, settings map[string]string) *goredis.Client {
	server := testkit.Run(b, redisserver.Start, redisserver.Config{Kind: kind, Settings: settings})
	options, err := goredis.ParseURL(server.URL())
	check(b, err)
	client := goredis.NewClient(options)
	testkit.CloseAtEnd(b, client)
	return client
}

// redisReads is a loop that looks for the keys of a poll, all of which are done.
func redisReads(b *testing.B, kind redisserver.Kind) {
	client := redisClient(b, kind, nil)
	keys := make([]string, b.N)
	for i := range keys {
		keys[i] = "key " + strconv.Itoa(i)
	}
	for poll := range slices.Chunk(keys, Polled) {
		if err := done.Run(b.Context(), client, poll).Err(); err != nil && err != goredis.Nil { //nolint:errorlint // of the client
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	for poll := range slices.Chunk(keys, Polled) {
		found, err := client.MGet(b.Context(), poll...).Result()
		check(b, err)
		if slices.Contains(found, nil) {
			b.Error("a key is new")
		}
	}
	b.StopTimer()
}

func redisLoop(b *testing.B, kind redisserver.Kind, settings map[string]string) {
	client := redisClient(b, kind, settings)
	b.ResetTimer()
	for n := 0; n < b.N; n += Polled {
		var keys, handled []string
		for i := n; i < min(n+Polled, b.N); i++ {
			keys = append(keys, "key "+strconv.Itoa(i))
		}
		fresh, err := startNew.Run(b.Context(), client, keys).Int64Slice()
		check(b, err)
		for i, isNew := range fresh {
			if isNew == 1 { // here the handler runs
				handled = append(handled, keys[i])
			}
		}
		if err := done.Run(b.Context(), client, handled).Err(); err != nil && err != goredis.Nil { //nolint:errorlint // of the client
			b.Fatal(err)
		}
	}
	b.StopTimer()
}

//go:build servers

package storebench

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/redisstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/idem/storetest"
	"github.com/idemsk/idemsk/internal/subprocess/serverproc"
	"github.com/idemsk/idemsk/internal/test/pgserver"
	"github.com/idemsk/idemsk/internal/test/redisserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

// BenchmarkStores runs the common benchmark on each store, one entry per call. Servers that can guarantee
// durability are configured to do so.
func BenchmarkStores(b *testing.B) {
	for _, st := range []struct {
		name string
		open func(b *testing.B) store.Store
	}{
		{"memory", func(*testing.B) store.Store { return memstore.New(memstore.Config{}) }},
		{"Redis", func(b *testing.B) store.Store { return redis(b, redisserver.Redis, nil) }},
		{"Redis, appendfsync always", func(b *testing.B) store.Store {
			return redis(b, redisserver.Redis,
				map[string]string{"appendonly": "yes", "appendfsync": "always"})
		}},
		{"Valkey", func(b *testing.B) store.Store { return redis(b, redisserver.Valkey, nil) }},
		{"PostgreSQL", onPostgres},
		{"DynamoDB Local", dynamoDBLocal},
	} {
		b.Run(st.name, func(b *testing.B) { storetest.Benchmark(b, st.open(b)) })
	}
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func redis(b *testing.B, kind redisserver.Kind, settings map[string]string) store.Store {
	b.Helper()
	server := testkit.Run(b, redisserver.Start, redisserver.Config{Kind: kind, Settings: settings})
	client, err := redisstore.NewClient(server.URL())
	check(b, err)
	testkit.CloseAtEnd(b, client)
	st, err := redisstore.New(client, redisstore.Config{})
	check(b, err)
	return st
}

func postgres(b *testing.B) *pgxpool.Pool {
	b.Helper()
	server := testkit.Run(b, pgserver.Start,
		pgserver.Config{Settings: map[string]string{"fsync": "on", "shared_buffers": "256MB"}})
	pool, err := pgstore.NewPool(server.URL())
	check(b, err)
	b.Cleanup(pool.Close)
	_, err = pgstore.Migrate(b.Context(), pool, pgstore.DefaultTable)
	check(b, err)
	return pool
}

func onPostgres(b *testing.B) store.Store {
	st, err := pgstore.New(postgres(b), pgstore.Config{})
	check(b, err)
	return st
}

func dynamoDBLocal(b *testing.B) store.Store {
	server := testkit.Run(b, serverproc.StartScript, serverproc.DynamoDBLocal)
	client := dynamostore.NewClient(aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String(server.Addr()),
		Credentials: credentials.NewStaticCredentialsProvider("idemskBench", "none", ""),
	})
	check(b, dynamostore.CreateTable(b.Context(), client, dynamostore.DefaultTable))
	st, err := dynamostore.New(client, dynamostore.Config{})
	check(b, err)
	return st
}

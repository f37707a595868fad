//go:build servers

package storebench

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/redisstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/idem/storetest"
	"github.com/idemsk/idemsk/internal/pgserver"
	"github.com/idemsk/idemsk/internal/redisserver"
)

// BenchmarkStores runs the common benchmark on each store, one entry per call. Servers that can guarantee durability are configured
// to do so.
func BenchmarkStores(b *testing.B) {
	for _, st := range []struct {
		name string
		open func(b *testing.B) store.Store
	}{
		{"memory", func(*testing.B) store.Store { return memstore.New(memstore.Config{}) }},
		{"Redis", func(b *testing.B) store.Store { return redis(b, redisserver.Redis, nil) }},
		{"Redis, appendfsync always", func(b *testing.B) store.Store {
			return redis(b, redisserver.Redis, map[string]string{"appendonly": "yes", "appendfsync": "always"})
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

func closed(b *testing.B, end func() error) {
	b.Helper()
	b.Cleanup(func() {
		if err := end(); err != nil {
			b.Error(err)
		}
	})
}

func redis(b *testing.B, kind redisserver.Kind, settings map[string]string) store.Store {
	b.Helper()
	server, err := redisserver.Start(b.Context(), redisserver.Config{Kind: kind, Settings: settings})
	check(b, err)
	closed(b, server.Close)
	client, err := redisstore.NewClient(server.URL())
	check(b, err)
	closed(b, client.Close)
	st, err := redisstore.New(client, redisstore.Config{})
	check(b, err)
	return st
}

func postgres(b *testing.B) *pgxpool.Pool {
	b.Helper()
	server, err := pgserver.Start(b.Context(), pgserver.Config{Settings: map[string]string{"fsync": "on", "shared_buffers": "256MB"}})
	check(b, err)
	closed(b, server.Close)
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

// patience includes the time to install DynamoDB Local.
const patience = 5 * time.Minute

func dynamoDBLocal(b *testing.B) store.Store {
	client := dynamostore.NewClient(aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String(startDynamoDBLocal(b)), Credentials: credentials.NewStaticCredentialsProvider("idemskBench", "none", ""),
	})
	check(b, dynamostore.CreateTable(b.Context(), client, dynamostore.DefaultTable))
	st, err := dynamostore.New(client, dynamostore.Config{})
	check(b, err)
	return st
}

// startDynamoDBLocal starts a DynamoDB Local and returns its endpoint.
func startDynamoDBLocal(b *testing.B) string {
	b.Helper()
	command := exec.Command("../../localstack/localstack.sh", "dynamodb-local", "0")
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	check(b, err)
	check(b, command.Start())
	endpoint := make(chan string, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if url, ok := strings.CutPrefix(lines.Text(), "listening "); ok {
				endpoint <- strings.TrimSpace(url)
				break
			}
		}
		_, _ = io.Copy(io.Discard, output) // to its end
		_ = command.Wait()                 // it is ended by a signal
	}()
	b.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM) // it may have ended by itself
		<-ended
	})
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	select {
	case url := <-endpoint:
		return url
	case <-ended:
	case <-ctx.Done():
	}
	b.Fatal("DynamoDB Local did not start (its words are above): install Java 17 and Maven")
	return ""
}

//go:build rest

package e2e_test

import (
	"context"
	"flag"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/internal/subprocess/serverproc"
	"github.com/idemsk/idemsk/internal/test/pgserver"
	"github.com/idemsk/idemsk/internal/test/redisserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(processVariable); text != "" {
		os.Exit(work(text))
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "12"); err != nil {
		// all of them: they wait for leases and timeouts, not for processors
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

const patience = 2 * time.Minute // of the test for anything that a store or a process does

// The servers are started once. The tests use different keys.
func TestOnRealStores(t *testing.T) {
	urls := map[server]string{
		onRedis:    testkit.Run(t, redisserver.Start, redisserver.Config{}).URL(),
		onPostgres: testkit.Run(t, pgserver.Start, pgserver.Config{}).URL(),
		onDynamoDB: testkit.Run(t, serverproc.StartScript, serverproc.DynamoDBLocal).Addr(),
	}
	createTables(t, urls)
	for name, test := range map[string]func(t *testing.T, kind string, url string){
		"paused processes": pausedProcesses, "clocks": clocks, "silent networks": silentNetworks,
	} {
		t.Run(name, func(t *testing.T) {
			for name, kind := range kinds {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					test(t, name, urls[kind.server])
				})
			}
		})
	}
}

func createTables(t *testing.T, urls map[server]string) {
	t.Helper()
	pool, err := pgstore.NewPool(urls[onPostgres])
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pgstore.Migrate(t.Context(), pool, pgstore.DefaultTable); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `CREATE TABLE effects (key text)`); err != nil {
		t.Fatal(err)
	}
	db := dynamoClient(urls[onDynamoDB], setup{})
	if err := dynamostore.CreateTable(t.Context(), db, dynamostore.DefaultTable); err != nil {
		t.Fatal(err)
	}
	awstest.CreateTable(t, db, effectsTable, "key")
}

// open opens a store for the test itself.
func open(t *testing.T, kind, url string, silence time.Duration) *books {
	t.Helper()
	b, err := kinds[kind].open(url, setup{Silence: silence})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	return b
}

// wantEffects wants an effect to have happened this number of times.
func (b *books) wantEffects(t *testing.T, key string, want int) {
	t.Helper()
	n, err := b.effects(t.Context(), key)
	if err != nil || n != want {
		t.Errorf("%s: %d effects, %v; want %d", key, n, err, want)
	}
}

func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

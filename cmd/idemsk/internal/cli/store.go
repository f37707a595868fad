package cli

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/redisstore"
	"github.com/idemsk/idemsk/idem/store"
)

// storeFlags select the store: a table in DynamoDB, or the store at a URL.
type storeFlags struct {
	awsFlags
	url   string
	table string
}

func (f *storeFlags) declare(fs *flag.FlagSet) {
	f.awsFlags.declare(fs)
	fs.StringVar(&f.url, "store-url", "", "the `URL` of the store, if it is not DynamoDB: postgres://user:password@host:port/name, redis:// or rediss://\n"+
		"(else IDEMSK_STORE_URL, which keeps it out of process lists)")
	declareTable(fs, &f.table, dynamostore.DefaultTable, "the `TABLE` of idempotency keys, or their prefix in Redis")
}

// declareTable declares --table, whose default is IDEMSK_TABLE or otherwise.
func declareTable(fs *flag.FlagSet, table *string, otherwise, usage string) {
	fs.StringVar(table, "table", cmp.Or(os.Getenv("IDEMSK_TABLE"), otherwise), usage+" (else IDEMSK_TABLE)")
}

// adminStore is the store that a verb reads.
type adminStore struct {
	store.Admin
	place   string                           // for people: "the table idemsk"
	cost    func(ctx context.Context) string // describes the cost of reading the whole store
	explain func(err error) error            // adds a remedy to an error
	close   func()
}

// open opens the store. It does not send a request.
func (f *storeFlags) open(ctx context.Context) (*adminStore, error) {
	if f.url != "" && f.endpoint+f.region != "" {
		return nil, usagef("--store-url names the store: --endpoint-url and --region are for DynamoDB")
	}
	url := f.url
	if f.endpoint+f.region == "" {
		url = cmp.Or(url, os.Getenv("IDEMSK_STORE_URL"))
	}
	scheme, _, _ := strings.Cut(url, "://")
	switch scheme {
	case "":
		return f.openDynamoDB(ctx)
	case "postgres", "postgresql":
		return f.openPostgres(url)
	case "redis", "rediss":
		return f.openRedis(url)
	}
	return nil, usagef("the store's URL is not one of postgres://, redis:// and rediss:// (for DynamoDB give none)")
}

func (f *storeFlags) openDynamoDB(ctx context.Context) (*adminStore, error) {
	cfg, err := f.load(ctx)
	if err != nil {
		return nil, err
	}
	client := dynamostore.NewClient(cfg)
	admin, err := dynamostore.New(client, dynamostore.Config{Table: f.table})
	if err != nil {
		return nil, &usageError{err}
	}
	return &adminStore{
		Admin: admin, place: "the table " + f.table, explain: explainAWS, close: func() {},
		cost: func(ctx context.Context) string { return scanCost(ctx, client, f.table) },
	}, nil
}

func (f *storeFlags) openPostgres(url string) (*adminStore, error) {
	pool, err := pgstore.NewPool(url)
	if err != nil {
		return nil, &usageError{err}
	}
	admin, err := pgstore.New(pool, pgstore.Config{Table: f.table})
	if err != nil {
		pool.Close()
		return nil, &usageError{err}
	}
	return newStore(admin, "the table "+f.table+" in PostgreSQL", "the whole table, in pages of 1,000 rows", pool.Close), nil
}

func (f *storeFlags) openRedis(url string) (*adminStore, error) {
	client, err := redisstore.NewClient(url)
	if err != nil {
		return nil, &usageError{err}
	}
	end := func() { _ = client.Close() } // nothing is in flight
	admin, err := redisstore.New(client, redisstore.Config{Prefix: f.table})
	if err != nil {
		end()
		return nil, &usageError{err}
	}
	return newStore(admin, "Redis, under "+f.table, "scanning all keys of the server", end), nil
}

func newStore(admin store.Admin, place, cost string, end func()) *adminStore {
	return &adminStore{
		Admin: admin, place: place, close: end,
		cost:    func(context.Context) string { return "reading " + term.Escape(place) + ": " + cost },
		explain: func(err error) error { return err }, // the stores' errors name the remedy
	}
}

// scanCost describes the cost of a scan. The table's size is DynamoDB's estimate, which is some hours old. It is omitted if
// DescribeTable fails, for example without permission.
func scanCost(ctx context.Context, client *dynamodb.Client, table string) string {
	const unit = 8 << 10 // bytes for one read unit of an eventually consistent scan
	text := fmt.Sprintf("scanning the table %s, 1 read unit for 8 KB", term.Escape(table))
	out, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
	if err != nil || out.Table == nil || out.Table.TableSizeBytes == nil || out.Table.ItemCount == nil {
		return text
	}
	return fmt.Sprintf("%s: about %s items, %s read units for a full scan",
		text, term.Count(*out.Table.ItemCount), term.Count(*out.Table.TableSizeBytes/unit+1))
}

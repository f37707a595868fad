// Package target opens what a verb works on, as its flags name it: a store of keys or a table in PostgreSQL.
package target

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/redis/go-redis/v9"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/flags"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/redisstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/awsclient/redisauth"
)

// StoreFlags select the store: a table in DynamoDB, or the store at a URL.
type StoreFlags struct {
	flags.AWS
	URL   string
	Table string
}

// Declare declares the flags.
func (f *StoreFlags) Declare(fs *flag.FlagSet) {
	f.AWS.Declare(fs)
	fs.StringVar(&f.URL, "store-url", "",
		"the `URL` of the store, if it is not DynamoDB: postgres://user:password@host:port/name, redis:// "+
			"or rediss://\n"+
			"(else IDEMSK_STORE_URL, which keeps it out of process lists)")
	declareTable(fs, &f.Table, dynamostore.DefaultTable,
		"the `TABLE` of idempotency keys, or their prefix in Redis")
}

// declareTable declares --table, whose default is IDEMSK_TABLE or otherwise.
func declareTable(fs *flag.FlagSet, table *string, otherwise, usage string) {
	fs.StringVar(table, "table", cmp.Or(os.Getenv("IDEMSK_TABLE"), otherwise), usage+" (else IDEMSK_TABLE)")
}

// Entries is what all stores are.
type Entries interface {
	store.Store
	store.Admin
}

// Store is the store that a verb reads.
type Store struct {
	Entries
	Place   string                           // for people: "the table idemsk"
	Cost    func(ctx context.Context) string // describes the cost of reading the whole store
	Explain func(err error) error            // adds a remedy to an error
	Close   func()
}

// Open opens the store. It does not send a request.
func (f *StoreFlags) Open(ctx context.Context) (*Store, error) {
	if f.URL != "" && f.Endpoint+f.Region != "" {
		return nil, command.Usagef(
			"--store-url names the store: --endpoint-url and --region are for DynamoDB")
	}
	url := f.URL
	if f.Endpoint+f.Region == "" {
		url = cmp.Or(url, os.Getenv("IDEMSK_STORE_URL"))
	}
	scheme, _, _ := strings.Cut(url, "://")
	switch scheme {
	case "":
		return f.openDynamoDB(ctx)
	case "postgres", "postgresql":
		return f.openPostgres(url)
	case "redis", "rediss":
		return f.openRedis(ctx, url)
	}
	return nil, command.Usagef(
		"the store's URL is not one of postgres://, redis:// and rediss:// (for DynamoDB give none)")
}

func (f *StoreFlags) openDynamoDB(ctx context.Context) (*Store, error) {
	cfg, err := f.Load(ctx)
	if err != nil {
		return nil, err
	}
	client := dynamostore.NewClient(cfg)
	admin, err := dynamostore.New(client, dynamostore.Config{Table: f.Table})
	if err != nil {
		return nil, &command.UsageError{Err: err}
	}
	return &Store{
		Entries: admin, Place: "the table " + f.Table, Explain: flags.ExplainAWS, Close: func() {},
		Cost: func(ctx context.Context) string { return scanCost(ctx, client, f.Table) },
	}, nil
}

func (f *StoreFlags) openPostgres(url string) (*Store, error) {
	pool, err := pgstore.NewPool(url)
	if err != nil {
		return nil, &command.UsageError{Err: err}
	}
	admin, err := pgstore.New(pool, pgstore.Config{Table: f.Table})
	if err != nil {
		pool.Close()
		return nil, &command.UsageError{Err: err}
	}
	return newStore(admin, "the table "+f.Table+" in PostgreSQL", "the whole table, in pages of 1,000 rows",
		pool.Close), nil
}

func (f *StoreFlags) openRedis(ctx context.Context, url string) (*Store, error) {
	iam, url, err := redisauth.Cut(url)
	if err != nil {
		return nil, command.Usagef("the store's URL: want %w", err)
	}
	var login []func(*redis.UniversalOptions)
	if iam != nil {
		cfg, err := config.LoadDefaultConfig(ctx)
		if err != nil {
			return nil, fmt.Errorf("loading the AWS configuration for the login by IAM: %w", err)
		}
		login = append(login, func(o *redis.UniversalOptions) {
			o.CredentialsProviderContext = iam.Login(cfg.Credentials)
		})
	}
	client, err := redisstore.NewClient(url, login...)
	if err != nil {
		return nil, &command.UsageError{Err: err}
	}
	end := func() { _ = client.Close() } // nothing is in flight
	admin, err := redisstore.New(client, redisstore.Config{Prefix: f.Table})
	if err != nil {
		end()
		return nil, &command.UsageError{Err: err}
	}
	return newStore(admin, "Redis, under "+f.Table, "scanning all keys of the server", end), nil
}

func newStore(admin Entries, place, cost string, end func()) *Store {
	return &Store{
		Entries: admin, Place: place, Close: end,
		Cost:    func(context.Context) string { return "reading " + term.Escape(place) + ": " + cost },
		Explain: func(err error) error { return err }, // the stores' errors name the remedy
	}
}

// scanCost describes the cost of a scan. The table's size is DynamoDB's estimate, which is some hours old. It
// is omitted if DescribeTable fails, for example without permission.
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

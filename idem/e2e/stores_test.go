//go:build rest

package e2e_test

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/redisstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/awsclient"
)

// books are a store and the effects of handlers on the same server.
type books struct {
	store interface {
		store.Store
		store.Admin
	}
	effect  func(ctx context.Context, key string) error        // happens in a handler
	effects func(ctx context.Context, key string) (int, error) // how often it happened
	close   func()
}

type server int

const (
	onRedis server = iota
	onPostgres
	onDynamoDB
)

// kind is a store in one of its modes.
type kind struct {
	server    server
	atomic    bool // effects commit with the completion
	unbatched bool // idem.Config.Unbatched
	open      func(url string, s setup) (*books, error)
}

var kinds = map[string]kind{
	"Redis":                    {server: onRedis, open: openRedis},
	"PostgreSQL":               {server: onPostgres, open: openPostgres(false)},
	"PostgreSQL, transactions": {server: onPostgres, atomic: true, open: openPostgres(true)},
	"DynamoDB Local":           {server: onDynamoDB, unbatched: true, open: openDynamoDB(false)},
	"DynamoDB Local, batched":  {server: onDynamoDB, open: openDynamoDB(false)},
	"DynamoDB Local, atomic":   {server: onDynamoDB, atomic: true, open: openDynamoDB(true)},
}

func openRedis(url string, s setup) (*books, error) {
	client, err := redisstore.NewClient(url + "?read_timeout=" + s.silence().String())
	if err != nil {
		return nil, err
	}
	st, err := redisstore.New(client, redisstore.Config{MaxClockSkew: s.Skew})
	return &books{
		store: st,
		effect: func(ctx context.Context,
			key string) error {
			return client.Incr(ctx, "effects:"+key).Err()
		},
		effects: func(ctx context.Context, key string) (int,
			error) {
			return client.Get(ctx, "effects:"+key).Int()
		},
		close: func() { _ = client.Close() },
	}, err
}

func openPostgres(atomic bool) func(url string, s setup) (*books, error) {
	const insert = `INSERT INTO effects VALUES ($1)`
	return func(url string, s setup) (*books, error) {
		// more than a process has handlers
		pool, err := pgstore.NewPool(url, func(c *pgxpool.Config) { c.MaxConns = 10 })
		if err != nil {
			return nil, err
		}
		st, err := pgstore.New(pool, pgstore.Config{MaxClockSkew: s.Skew, RoundTripTimeout: s.silence(),
			IdleLimit: 2 * patience})
		return &books{
			store: st,
			effect: func(ctx context.Context, key string) error {
				if !atomic {
					_, err := pool.Exec(ctx, insert, key)
					return err
				}
				tx, err := pgstore.TxFrom(ctx)
				if err == nil {
					_, err = tx.Exec(ctx, insert, key)
				}
				return err
			},
			effects: func(ctx context.Context, key string) (n int, err error) {
				err = pool.QueryRow(ctx, `SELECT count(*) FROM effects WHERE key = $1`, key).Scan(&n)
				return n, err
			},
			close: pool.Close,
		}, err
	}
}

const effectsTable = "effects"

func dynamoClient(url string, s setup) *dynamodb.Client {
	return dynamostore.NewClient(aws.Config{
		Region: "us-east-1", HTTPClient: awsclient.New(nil, s.silence()), BaseEndpoint: &url,
		Credentials: credentials.NewStaticCredentialsProvider("e2e", "none", ""),
	})
}

func openDynamoDB(atomic bool) func(url string, s setup) (*books, error) {
	return func(url string, s setup) (*books, error) {
		db := dynamoClient(url, s)
		st, err := dynamostore.New(db, dynamostore.Config{MaxClockSkew: s.Skew,
			Clock: func() time.Time { return time.Now().Add(s.Ahead) }})
		one := map[string]types.AttributeValue{":one": &types.AttributeValueMemberN{Value: "1"}}
		id := func(key string) map[string]types.AttributeValue {
			return map[string]types.AttributeValue{"key": &types.AttributeValueMemberS{Value: key}}
		}
		return &books{
			store: st,
			effect: func(ctx context.Context, key string) error {
				table, add := aws.String(effectsTable), aws.String("ADD times :one")
				if !atomic {
					_, err := db.UpdateItem(ctx,
						&dynamodb.UpdateItemInput{TableName: table, Key: id(key), UpdateExpression: add,
							ExpressionAttributeValues: one})
					return err
				}
				tx, err := dynamostore.TxFrom(ctx)
				if err == nil {
					err = tx.Enlist(dynamostore.Write{Update: &types.Update{TableName: table, Key: id(key),
						UpdateExpression: add, ExpressionAttributeValues: one}})
				}
				return err
			},
			effects: func(ctx context.Context, key string) (int, error) {
				out, err := db.GetItem(ctx,
					&dynamodb.GetItemInput{TableName: aws.String(effectsTable), Key: id(key),
						ConsistentRead: aws.Bool(true)})
				if err != nil {
					return 0, err
				}
				n, ok := out.Item["times"].(*types.AttributeValueMemberN)
				if !ok {
					return 0, fmt.Errorf("%s has no number: %v", key, out.Item)
				}
				return strconv.Atoi(n.Value)
			},
			close: func() {},
		}, err
	}
}

//go:build rest

package torture_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/test/pgserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/internal/trace/dynamotrace"
)

// effects are the bookings on each account: the records in the order of the bookings, and their sum.
type effects struct {
	places  map[string][]string
	balance map[string]int64
}

func newEffects() *effects { return &effects{make(map[string][]string), make(map[string]int64)} }

// stores open the stores of the test: they return the variables of a process, and what reads the effects.
var stores = map[string]func(t *testing.T) (variables []string,
	read func(ctx context.Context) (*effects, error)){
	"atomic mode, DynamoDB": openDynamoDB, "transaction mode, PostgreSQL": openPostgres,
}

func openDynamoDB(t *testing.T) (variables []string, read func(ctx context.Context) (*effects, error)) {
	t.Helper()
	server := testkit.Serve(t, dynamofake.New,
		dynamofake.Config{Observe: awstest.TraceWrites(t, dynamostore.DefaultTable, skew,
			dynamotrace.OneMachine)})
	if err := server.CreateTable(dynamofake.Table{Name: effectsTable, HashKey: "account"}); err != nil {
		t.Fatal(err)
	}
	client := dynamodb.NewFromConfig(awstest.Config(t, server.URL()))
	if err := dynamostore.CreateTable(t.Context(), client, dynamostore.DefaultTable); err != nil {
		t.Fatal(err)
	}
	variables = []string{"AWS_ENDPOINT_URL_DYNAMODB=" + server.URL(), "AWS_REGION=us-east-1",
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test"}
	return variables, func(ctx context.Context) (*effects, error) {
		table, e := effectsTable, newEffects()
		pages := dynamodb.NewScanPaginator(client, &dynamodb.ScanInput{TableName: &table})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, err
			}
			for _, item := range page.Items {
				account := item["account"].(*types.AttributeValueMemberS).Value
				e.places[account] = strings.Fields(placesOf(item))
				e.balance[account], err = strconv.ParseInt(
					item["balance"].(*types.AttributeValueMemberN).Value, 10, 64)
				if err != nil {
					return nil, err
				}
			}
		}
		return e, nil
	}
}

func openPostgres(t *testing.T) (variables []string, read func(ctx context.Context) (*effects, error)) {
	t.Helper()
	server := testkit.Run(t, pgserver.Start, pgserver.Config{})
	pool, err := pgxpool.New(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pgstore.Migrate(t.Context(), pool, pgstore.DefaultTable); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `CREATE TABLE effects (number bigserial, account text, place text, amount bigint)`); err != nil {
		t.Fatal(err)
	}
	variables = []string{"IDEMSK_STORE=postgres", "IDEMSK_STORE_URL=" + server.URL(), "IDEMSK_CONCURRENCY=8"}
	return variables, func(ctx context.Context) (*effects, error) {
		rows, err := pool.Query(ctx, `SELECT account, place, amount FROM effects ORDER BY number`)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		e := newEffects()
		for rows.Next() {
			var account, place string
			var amount int64
			if err := rows.Scan(&account, &place, &amount); err != nil {
				return nil, err
			}
			e.places[account] = append(e.places[account], place)
			e.balance[account] += amount
		}
		return e, rows.Err()
	}
}

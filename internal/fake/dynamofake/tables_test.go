package dynamofake_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/internal/fake/dynamofake"
)

// tableStep is a request about one table, with its answer as text.
type tableStep func(db *dynamodb.Client, table string) (string, error)

// tableLife is the lifecycle of a table, with the requests that are refused in each state.
func tableLife() []tableStep {
	life := []tableStep{describe, describeTTL, ttl(true, "expires"), remove, put(key("a"))}
	for _, fault := range []func(*dynamodb.CreateTableInput){
		func(in *dynamodb.CreateTableInput) { in.TableName = aws.String("a!") },
		func(in *dynamodb.CreateTableInput) { in.KeySchema[0].KeyType = types.KeyTypeRange },
		func(in *dynamodb.CreateTableInput) { in.AttributeDefinitions[0].AttributeName = aws.String("z") },
		func(in *dynamodb.CreateTableInput) { in.AttributeDefinitions = nil },
		func(in *dynamodb.CreateTableInput) { in.BillingMode = "" },
	} {
		life = append(life, create(fault))
	}
	life = append(life, create(nil), create(nil), describe,
		describeTTL, ttl(false, "expires"), ttl(true, "expires"), describeTTL, ttl(true, "expires"),
		ttl(true, "other"),
		ttl(false, "other"), ttl(false, "expires"), describeTTL, ttl(true, "other"), describeTTL)
	const room = 400<<10 - len("k"+"a"+"v")
	for _, it := range []attributes{
		key("a"), goldenItem(), {"z": str("a")}, {"k": num("1")}, {"k": null()},
		key(""), key(strings.Repeat("x", 2048)), key(strings.Repeat("x", 2049)),
		{"k": str("a"), "v": nested(31)}, {"k": str("a"), "v": nested(32)},
		{"k": str("a"), "v": str(strings.Repeat("x", room))},
		{"k": str("a"), "v": str(strings.Repeat("x", room+1))},
		{"k": str("a"), "v": num("1e126")}, {"k": str("a"), "v": num("1e-131")},
		{"k": str("a"), "v": num("one")},
		{"k": str("a"), "v": strs("a", "a")}, {"k": str("a"), "v": nums("1", "1.0")},
		{"k": str("a"), "v": strs()},
		{"k": str("a"), "v": nums()}, {"k": str("a"), "v": bins()}, {"k": str("a"), "": str("a")},
		{"k": str("a"), strings.Repeat("n", 65536): str("a")},
		{"k": str("a"), "v": &types.AttributeValueMemberNULL{Value: false}},
	} {
		life = append(life, put(it), describe)
	}
	for _, k := range []attributes{
		key("a"), key("absent"), {}, {"z": str("a")}, {"k": str("a"), "z": str("a")}, {"k": num("1")},
		key(""),
	} {
		life = append(life, get(k))
	}
	return append(life, remove, describe)
}

func create(change func(*dynamodb.CreateTableInput)) tableStep {
	return func(db *dynamodb.Client, table string) (string, error) {
		in := createTableInput(table)
		if change != nil {
			change(in)
		}
		_, err := db.CreateTable(context.Background(), in)
		return "", err
	}
}

func remove(db *dynamodb.Client, table string) (string, error) {
	_, err := db.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: &table})
	return "", err
}

func describe(db *dynamodb.Client, table string) (string, error) {
	out, err := db.DescribeTable(context.Background(), &dynamodb.DescribeTableInput{TableName: &table})
	if err != nil {
		return "", err
	}
	d := out.Table
	return fmt.Sprint(*d.TableName, d.TableStatus, *d.ItemCount, *d.TableSizeBytes,
		d.BillingModeSummary.BillingMode,
		*d.KeySchema[0].AttributeName, d.KeySchema[0].KeyType, d.AttributeDefinitions[0].AttributeType), nil
}

func ttl(enabled bool, attribute string) tableStep {
	return func(db *dynamodb.Client, table string) (string, error) {
		out, err := db.UpdateTimeToLive(context.Background(), &dynamodb.UpdateTimeToLiveInput{
			TableName: &table,
			TimeToLiveSpecification: &types.TimeToLiveSpecification{Enabled: &enabled,
				AttributeName: &attribute},
		})
		if err != nil {
			return "", err
		}
		return fmt.Sprint(*out.TimeToLiveSpecification.Enabled, *out.TimeToLiveSpecification.AttributeName),
			nil
	}
}

func describeTTL(db *dynamodb.Client, table string) (string, error) {
	out, err := db.DescribeTimeToLive(context.Background(),
		&dynamodb.DescribeTimeToLiveInput{TableName: &table})
	if err != nil {
		return "", err
	}
	d := out.TimeToLiveDescription
	return fmt.Sprint(d.TimeToLiveStatus, aws.ToString(d.AttributeName)), nil
}

func put(it attributes) tableStep {
	return func(db *dynamodb.Client, table string) (string, error) {
		_, err := db.PutItem(context.Background(), &dynamodb.PutItemInput{TableName: &table, Item: it})
		return "", err
	}
}

func get(k attributes) tableStep {
	return func(db *dynamodb.Client, table string) (string, error) {
		out, err := db.GetItem(context.Background(), &dynamodb.GetItemInput{TableName: &table, Key: k})
		if err != nil {
			return "", err
		}
		return text(out.Item), nil
	}
}

func nested(levels int) types.AttributeValue {
	v := str("x")
	for range levels {
		v = list(v)
	}
	return v
}

// compareTables compares error codes only, because DynamoDB Local has its own messages for many errors about
// keys and tables.
func compareTables(t *testing.T, p *pair) {
	for i, step := range tableLife() {
		local, localErr := step(p.local, p.table)
		fake, fakeErr := step(p.fake, p.table)
		localCode, _ := failure(localErr)
		fakeCode, _ := failure(fakeErr)
		if localCode != fakeCode || local != fake {
			t.Errorf("step %d:\nlocal: %s %v\n fake: %s %v", i, local, localErr, fake, fakeErr)
		}
	}
}

func TestListTables(t *testing.T) {
	server, db := start(t, dynamofake.Config{})
	for _, name := range []string{"zebra", "ant", "bee"} {
		if err := server.CreateTable(dynamofake.Table{Name: name, HashKey: "id"}); err != nil {
			t.Fatal(err)
		}
	}
	var pages []string
	for p := dynamodb.NewListTablesPaginator(db,
		&dynamodb.ListTablesInput{Limit: aws.Int32(3)}); p.HasMorePages(); {
		page, err := p.NextPage(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, strings.Join(page.TableNames, " "))
	}
	if got := strings.Join(pages, "; "); got != "ant bee table; zebra" {
		t.Errorf("pages %q", got)
	}
	_, err := db.ListTables(context.Background(), &dynamodb.ListTablesInput{Limit: aws.Int32(101)})
	if code, _ := failure(err); code != "ValidationException" {
		t.Errorf("a limit of 101: %v", err)
	}
}

func TestCreateTableWithoutAPI(t *testing.T) {
	server, db := start(t, dynamofake.Config{})
	for _, wrong := range []dynamofake.Table{
		{Name: "no", HashKey: "id"}, {Name: "bad name", HashKey: "id"}, {Name: "nokey"},
		{Name: table, HashKey: "k"}, {Name: "other", HashKey: "id", TTLAttribute: "id"},
	} {
		if err := server.CreateTable(wrong); err == nil {
			t.Errorf("%+v: no error", wrong)
		}
	}
	if got, err := describeTTL(db, table); err != nil || got != "ENABLEDexpires" {
		t.Errorf("time to live: %q, %v", got, err)
	}
}

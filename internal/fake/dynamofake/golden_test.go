package dynamofake_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/internal/fake/dynamofake"
)

// The files in testdata have expressions with their results on goldenItem: for a condition true, false or an
// error, for an update the changed attributes or an error. The results of the fake and of DynamoDB Local must
// be equal to them.

func goldenItem() attributes {
	return attributes{
		"k": str("key"), "n": num("5"), "s": str("str"), "b": bin("\x01\x02"), "bo": boolean(false),
		"nul": null(),
		"m":   dict(attributes{"x": num("1")}), "l": list(str("q")), "ss": strs("b", "a"),
		"ns": nums("2", "1"),
		"bs": bins([]byte("x")),
	}
}

func goldenValues() attributes {
	return attributes{
		":one": num("1"), ":five": num("5"), ":five2": str("5"), ":nine": num("9"),
		":precise": num("5.0000000000000000000000000000000000001"),
		":big":     num("99999999999999999999999999999999999999"), ":huge": num("9e125"),
		":tiny": num("1e-130"),
		":str":  str("str"), ":st": str("st"), ":key": str("key"), ":bool": boolean(false),
		":true": boolean(true), ":null": null(),
		":bin": bin("\x01\x02"), ":bin2": bin("\x02"), ":binprefix": bin("\x01"),
		":map":  dict(attributes{"x": num("1.0")}),
		":list": list(str("q")), ":ss": strs("a", "b"), ":ss2": strs("a", "c"), ":ns": nums("1", "2.0"),
		":bs": bins([]byte("x")),
	}
}

func goldenNames() names {
	return names{"#n": "n", "#n2": "n", "#k": "k", "#status": "status"}
}

// used returns the entries whose placeholders are in the expression, or nil.
func used[V any](expression string, all map[string]V) map[string]V {
	var found map[string]V
	for _, placeholder := range regexp.MustCompile(`[:#][A-Za-z0-9_]+`).FindAllString(expression, -1) {
		if v, ok := all[placeholder]; ok {
			if found == nil {
				found = make(map[string]V)
			}
			found[placeholder] = v
		}
	}
	return found
}

func putGolden(t *testing.T, db *dynamodb.Client, table string) {
	t.Helper()
	if _, err := db.PutItem(context.Background(),
		&dynamodb.PutItemInput{TableName: &table, Item: goldenItem()}); err != nil {
		t.Fatal(err)
	}
}

func goldenCondition(t *testing.T, db *dynamodb.Client, table, expression string) string {
	t.Helper()
	putGolden(t, db, table)
	_, err := db.PutItem(context.Background(), &dynamodb.PutItemInput{
		TableName: &table, Item: goldenItem(), ConditionExpression: &expression,
		ExpressionAttributeNames:  used(expression, goldenNames()),
		ExpressionAttributeValues: used(expression, goldenValues()),
	})
	switch code, message := failure(err); code {
	case "":
		return "true"
	case "ConditionalCheckFailedException":
		return "false"
	default:
		return code + ": " + message
	}
}

func goldenUpdate(t *testing.T, db *dynamodb.Client, table, expression string) string {
	t.Helper()
	putGolden(t, db, table)
	out, err := db.UpdateItem(context.Background(), &dynamodb.UpdateItemInput{
		TableName: &table, Key: key("key"), UpdateExpression: &expression,
		ReturnValues:              types.ReturnValueAllNew,
		ExpressionAttributeNames:  used(expression, goldenNames()),
		ExpressionAttributeValues: used(expression, goldenValues()),
	})
	if code, message := failure(err); code != "" {
		return code + ": " + message
	}
	return changes(goldenItem(), out.Attributes)
}

// changes formats the attributes that after has and before has not, and the names that only before has.
func changes(before, after attributes) string {
	changed := attributes{}
	for name, v := range after {
		if before[name] == nil || valueText(before[name]) != valueText(v) {
			changed[name] = v
		}
	}
	for name := range before {
		if after[name] == nil {
			changed["-"+name] = null()
		}
	}
	return text(changed)
}

type golden func(t *testing.T, db *dynamodb.Client, table, expression string) string

func checkGolden(t *testing.T, db *dynamodb.Client, table, file string, run golden) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
	if len(lines)%2 != 0 || len(lines) < 2 {
		t.Fatalf("%s has %d lines; want pairs of an expression and its indented outcome", file, len(lines))
	}
	for i := 0; i < len(lines); i += 2 {
		expression, want := lines[i], strings.TrimPrefix(lines[i+1], "\t")
		if got := run(t, db, table, expression); got != want {
			t.Errorf("%s:%d: %s\n got: %s\nwant: %s", file, i+1, expression, got, want)
		}
	}
}

func TestConditions(t *testing.T) {
	_, db := start(t, dynamofake.Config{})
	checkGolden(t, db, table, "testdata/conditions.txt", goldenCondition)
}

func TestUpdates(t *testing.T) {
	_, db := start(t, dynamofake.Config{})
	checkGolden(t, db, table, "testdata/updates.txt", goldenUpdate)
}

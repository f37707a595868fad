package dynamofake_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/internal/fake/dynamofake"
)

// Every form of a write is observed in order, with what it changed or would have changed, and with the client
// that signed it.
func TestObserve(t *testing.T) {
	var seen []string
	_, db := start(t, dynamofake.Config{Observe: func(w *dynamofake.Write) {
		what := fmt.Sprintf("%s %q->%q", w.Key, w.Before("v"), w.After("v"))
		if w.Refused {
			what += fmt.Sprintf(" refused v=%s owner=%s", w.Wanted("v"), w.Wanted("owner"))
		}
		if w.Table != table || w.Client == "" || strings.Contains(w.Client, "/") ||
			w.Existed() != (w.Before("k") != "") || w.Exists() != (w.After("k") != "") {
			t.Errorf("%+v", w)
		}
		seen = append(seen, what)
	}})
	ctx := context.Background()
	name := aws.String(table)
	item := func(v string) attributes { return attributes{"k": str("a"), "v": str(v), "owner": str("me")} }
	put := func(v string) {
		_, _ = db.PutItem(ctx, &dynamodb.PutItemInput{TableName: name, Item: item(v),
			ConditionExpression: aws.String("attribute_not_exists(k)")})
	}
	update := func(owner string) *types.Update {
		return &types.Update{
			TableName: name, Key: key("a"), UpdateExpression: aws.String("SET v = :v"),
			ConditionExpression:       aws.String("attribute_exists(k) AND #o = :o"),
			ExpressionAttributeNames:  map[string]string{"#o": "owner"},
			ExpressionAttributeValues: attributes{":v": str("by " + owner), ":o": str(owner)},
		}
	}
	transact := func(owner string) {
		_, _ = db.TransactWriteItems(ctx,
			&dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
				{Update: update(owner)}, {Put: &types.Put{TableName: name,
					Item: attributes{"k": str("b"), "v": str("effect")}}},
			}})
	}
	statement := func(text string, parameters ...types.AttributeValue) {
		_, err := db.BatchExecuteStatement(ctx,
			&dynamodb.BatchExecuteStatementInput{Statements: []types.BatchStatementRequest{
				{Statement: aws.String(fmt.Sprintf(text, table)), Parameters: parameters},
			}})
		if err != nil {
			t.Error(err)
		}
	}
	put("1")
	put("2")
	transact("me")
	transact("you")
	u := update("it")
	_, _ = db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: u.TableName, Key: u.Key, UpdateExpression: u.UpdateExpression,
		ConditionExpression:       u.ConditionExpression,
		ExpressionAttributeNames:  u.ExpressionAttributeNames,
		ExpressionAttributeValues: u.ExpressionAttributeValues,
	})
	statement(`INSERT INTO "%s" VALUE {'k':?,'v':?}`, str("a"), str("3"))
	statement(`UPDATE "%s" SET "v"=? WHERE "k"=? AND "owner"=?`, str("4"), str("a"), str("me"))
	statement(`UPDATE "%s" SET "v"=? WHERE "k"=? AND "owner"=?`, str("5"), str("a"), str("them"))
	_, _ = db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: name, Key: key("a")})
	want := []string{
		`a ""->"1"`, `a "1"->"1" refused v=2 owner=me`, `a "1"->"by me"`, `b ""->"effect"`,
		`a "by me"->"by me" refused v=by you owner=you`,
		`a "by me"->"by me" refused v=by it owner=it`, `a "by me"->"by me" refused v=3 owner=`,
		`a "by me"->"4"`,
		`a "4"->"4" refused v=5 owner=them`, `a "4"->""`,
	}
	if !slices.Equal(seen, want) {
		t.Errorf("observed\n%s\nwant\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
	}
}

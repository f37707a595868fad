package dynamofake_test

import (
	"context"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idemsk/idemsk/internal/fake/dynamofake"
)

func TestUsage(t *testing.T) {
	server, db := start(t, dynamofake.Config{})
	big := key("a")
	big["x"] = str(strings.Repeat("x", 5000))
	for _, step := range []tableStep{put(big), get(key("a")), get(key("absent")), put(key("a"))} {
		if _, err := step(db, table); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(k string) {
		_, err := db.DeleteItem(context.Background(), &dynamodb.DeleteItemInput{
			TableName: aws.String(table), Key: key(k),
			ConditionExpression: aws.String("attribute_exists(absent)"),
		})
		if code, _ := failure(err); code != "ConditionalCheckFailedException" {
			t.Errorf("delete %s: %v", k, err)
		}
	}
	refused("a")
	refused("absent")
	if _, code, _ := call(t, server, "Nonsense", "{}"); code != "UnknownOperationException" {
		t.Errorf("an unknown operation: %s", code)
	}
	got := server.Usage()
	requests := got.Requests
	if len(requests) != 4 || requests["PutItem"] != 2 || requests["GetItem"] != 2 ||
		requests["DeleteItem"] != 2 || requests["Unknown"] != 1 {
		t.Errorf("requests %v", requests)
	}
	if got.WriteUnits != 5+5+1+1 || got.ReadUnits != 1+0.5 {
		t.Errorf("%v write units and %v read units, want 12 and 1.5", got.WriteUnits, got.ReadUnits)
	}
	server.ResetUsage()
	if again := server.Usage(); len(again.Requests) != 0 || again.WriteUnits != 0 || again.ReadUnits != 0 ||
		requests["PutItem"] != 2 {
		t.Errorf("after the reset: %+v; the copy from before: %v", again, requests)
	}
}

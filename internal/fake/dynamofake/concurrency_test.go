package dynamofake_test

import (
	"context"
	"strconv"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idemsk/idemsk/internal/fake/dynamofake"
)

const contenders = 64

// together runs f in n goroutines at the same time, and returns the results.
func together[T any](n int, f func(i int) T) []T {
	results := make([]T, n)
	ready := make(chan struct{})
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			<-ready
			results[i] = f(i)
		})
	}
	close(ready)
	group.Wait()
	return results
}

func count(codes []string, code string) int {
	n := 0
	for _, c := range codes {
		if c == code {
			n++
		}
	}
	return n
}

func TestOneConditionalPutWins(t *testing.T) {
	server, db := start(t, dynamofake.Config{})
	codes := together(contenders, func(i int) string {
		it := key("a")
		it["owner"] = num(strconv.Itoa(i))
		_, err := db.PutItem(context.Background(), &dynamodb.PutItemInput{
			TableName: aws.String(table), Item: it, ConditionExpression: aws.String("attribute_not_exists(k)"),
		})
		code, _ := failure(err)
		return code
	})
	if won, lost := count(codes, ""), count(codes, "ConditionalCheckFailedException"); won != 1 || lost != contenders-1 {
		t.Errorf("%d won, %d lost; want 1 and %d: %q", won, lost, contenders-1, codes)
	}
	if n := server.Usage().Requests["PutItem"]; n != contenders {
		t.Errorf("%d requests counted, want %d", n, contenders)
	}
}

func TestConcurrentAddsSumUp(t *testing.T) {
	_, db := start(t, dynamofake.Config{})
	codes := together(contenders, func(i int) string {
		_, err := db.UpdateItem(context.Background(), &dynamodb.UpdateItemInput{
			TableName: aws.String(table), Key: key("a"), UpdateExpression: aws.String("ADD balance :v"),
			ExpressionAttributeValues: attributes{":v": num(strconv.Itoa(i))},
		})
		code, _ := failure(err)
		return code
	})
	want := text(attributes{"k": str("a"), "balance": num(strconv.Itoa(contenders * (contenders - 1) / 2))})
	if got, err := get(key("a"))(db, table); err != nil || got != want {
		t.Errorf("%s, %v; want %s; %q", got, err, want, codes)
	}
}

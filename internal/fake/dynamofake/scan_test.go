package dynamofake_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/internal/fake/dynamofake"
)

func TestScanPagesBySize(t *testing.T) {
	_, db := start(t, dynamofake.Config{})
	const items = 10
	for i := range items {
		it := key(strconv.Itoa(i))
		it["x"] = str(strings.Repeat("x", 300<<10))
		if _, err := put(it)(db, table); err != nil {
			t.Fatal(err)
		}
	}
	pages, found := 0, map[string]bool{}
	for p := dynamodb.NewScanPaginator(db,
		&dynamodb.ScanInput{TableName: aws.String(table)}); p.HasMorePages(); {
		page, err := p.NextPage(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range page.Items {
			found[valueText(it["k"])] = true
		}
		pages++
	}
	if pages != 3 || len(found) != items {
		t.Errorf("%d items on %d pages, want %d on 3", len(found), pages, items)
	}
}

func TestScanGoesOnFromDeletedKey(t *testing.T) {
	_, db := start(t, dynamofake.Config{})
	left := map[string]bool{}
	add := func(k string) {
		if _, err := put(key(k))(db, table); err != nil {
			t.Fatal(err)
		}
		left[k] = true
	}
	for i := range 10 {
		add(strconv.Itoa(i))
	}
	for p := dynamodb.NewScanPaginator(db,
		&dynamodb.ScanInput{TableName: aws.String(table), Limit: aws.Int32(1)}); p.HasMorePages(); {
		page, err := p.NextPage(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range page.Items {
			k := it["k"].(*types.AttributeValueMemberS).Value
			if !left[k] {
				t.Errorf("%s came twice", k)
			}
			delete(left, k)
			if _, err := db.DeleteItem(context.Background(),
				&dynamodb.DeleteItemInput{TableName: aws.String(table), Key: key(k)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(left) > 0 {
		t.Errorf("not found: %v", left)
	}
	add("new")
	if got := scanAll(db, dynamodb.ScanInput{TableName: aws.String(
		table)}); got.answer != "1 pages, scanned 1: [{k=S:new }]" {
		t.Errorf("after a change: %+v", got)
	}
}

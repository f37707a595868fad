package dynamofake_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idemsk/idemsk/internal/fake/dynamofake"
)

// claim returns an item like those of the store.
func claim(k string) attributes {
	return attributes{
		"k": str(k), "status": str("STARTED"), "version": num("1795217576129"), "owner": str("0f8fad5b-d9cb-469f-a165-70867728950e"),
		"leaseUntil": num("1795217606129"), "attempts": num("1"), "requestFingerprint": bin("0123456789abcdef0123456789abcdef"),
		"source": str("payments-0@12345"), "createdAt": num("1795217576129"), "updatedAt": num("1795217576129"),
		"expires": num("1795822406"),
	}
}

// BenchmarkPutItem measures a conditional write of a new item by the SDK over HTTP. The client, in the same process, takes most of
// the time.
func BenchmarkPutItem(b *testing.B) {
	_, db := start(b, dynamofake.Config{})
	var n atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, err := db.PutItem(context.Background(), &dynamodb.PutItemInput{
				TableName: aws.String(table), Item: claim(strconv.FormatInt(n.Add(1), 10)),
				ConditionExpression: aws.String("attribute_not_exists(k)"), ReturnValuesOnConditionCheckFailure: "ALL_OLD",
			})
			if err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}

// discard is a ResponseWriter that discards the answer.
type discard struct {
	header http.Header
	status int
	reply  bytes.Buffer
}

func (w *discard) Header() http.Header         { return w.header }
func (w *discard) WriteHeader(status int)      { w.status = status }
func (w *discard) Write(b []byte) (int, error) { return w.reply.Write(b) }

// BenchmarkHandler measures the server without HTTP: a new item, the same write refused with the stored item in the answer, and an
// update.
func BenchmarkHandler(b *testing.B) {
	const put = `{"TableName":"table","ConditionExpression":"attribute_not_exists(k)","ReturnValuesOnConditionCheckFailure":"ALL_OLD",` +
		`"Item":{"k":{"S":"key-%d"},"status":{"S":"STARTED"},"version":{"N":"1795217576129"},"owner":{"S":"0f8fad5b-d9cb-469f-a165-70867728950e"},` +
		`"leaseUntil":{"N":"1795217606129"},"attempts":{"N":"1"},"requestFingerprint":{"B":"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="},` +
		`"source":{"S":"payments-0@12345"},"createdAt":{"N":"1795217576129"},"updatedAt":{"N":"1795217576129"},"expires":{"N":"1795822406"}}}`
	const update = `{"TableName":"table","Key":{"k":{"S":"key-0"}},"ReturnValuesOnConditionCheckFailure":"ALL_OLD",` +
		`"UpdateExpression":"SET #s = :s, updatedAt = :now, expires = :e REMOVE retryAt",` +
		`"ConditionExpression":"#s = :s AND version = :v AND #o = :o AND attribute_not_exists(retryAt)",` +
		`"ExpressionAttributeNames":{"#s":"status","#o":"owner"},"ExpressionAttributeValues":{":s":{"S":"STARTED"},":v":{"N":"1795217576129"},` +
		`":o":{"S":"0f8fad5b-d9cb-469f-a165-70867728950e"},":now":{"N":"1795217576130"},":e":{"N":"1795822407"}}}`
	for _, c := range []struct {
		name, target string
		body         func(i int) string
		status       int
	}{
		{"PutFresh", "PutItem", func(i int) string { return fmt.Sprintf(put, i+1) }, http.StatusOK},
		{"PutRefused", "PutItem", func(int) string { return fmt.Sprintf(put, 0) }, http.StatusBadRequest},
		{"Update", "UpdateItem", func(int) string { return update }, http.StatusOK},
	} {
		b.Run(c.name, func(b *testing.B) {
			server := unstarted(b, dynamofake.Config{})
			w := &discard{header: http.Header{}}
			serve := func(target, body string) {
				r, err := http.NewRequest(http.MethodPost, "/", bytes.NewReader([]byte(body)))
				if err != nil {
					b.Fatal(err)
				}
				r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+target)
				w.reply.Reset()
				server.ServeHTTP(w, r)
			}
			serve("PutItem", fmt.Sprintf(put, 0))
			bodies := make([]string, min(b.N, 1<<16))
			for i := range bodies {
				bodies[i] = c.body(i)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				if serve(c.target, bodies[i%len(bodies)]); w.status != c.status && i < len(bodies) {
					b.Fatalf("status %d: %s", w.status, w.reply.String())
				}
			}
		})
	}
}

package msk

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
)

// typicalEvent returns an event of n records over three partitions as MSK sends them: a JSON value of 120
// bytes, a key of 20 and a header of 20.
func typicalEvent(n int) []byte {
	event := events.KafkaEvent{
		EventSource:      "aws:kafka",
		EventSourceARN:   "arn:aws:kafka:eu-central-1:123456789012:cluster/payments/0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0-4",
		BootstrapServers: "b-1.payments.a1bcde.c4.kafka.eu-central-1.amazonaws.com:9098",
		Records:          map[string][]events.KafkaRecord{},
	}
	for i := range n {
		value := fmt.Sprintf(`{"paymentId":"payment-%012d","account":"account-%04d","amount":%d,"currency":"EUR","note":"thank you for it all"}`,
			i, i%1000, 1000+i%9000)
		id := fmt.Sprintf("payments-%d", i%3)
		event.Records[id] = append(event.Records[id], events.KafkaRecord{
			Topic:         "payments",
			Partition:     int64(i % 3),
			Offset:        int64(100_000 + i/3),
			Timestamp:     events.MilliSecondsEpochTime{Time: time.UnixMilli(1_767_225_600_000 + int64(i))},
			TimestampType: "CREATE_TIME",
			Key:           base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "account-%012d", i%1000)),
			Value:         base64.StdEncoding.EncodeToString([]byte(value)),
			Headers: []map[string]events.JSONNumberBytes{{"idempotency-key": fmt.Appendf(nil,
				"payment-%012d", i)}},
		})
	}
	payload, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	return payload
}

// BenchmarkDecode reports what a record costs, as the budget is given a record; encoding/json stands beside
// it doing the same work into the type of aws-lambda-go.
func BenchmarkDecode(b *testing.B) {
	for _, n := range []int{1, 100, 1_000, 10_000} {
		payload := typicalEvent(n)
		b.Run(fmt.Sprintf("records=%d", n), func(b *testing.B) {
			perRecord(b, payload, n, func() error {
				_, err := Decode(payload)
				return err
			})
		})
	}
	const n = 1_000
	payload := typicalEvent(n)
	b.Run(fmt.Sprintf("encoding-json/records=%d", n), func(b *testing.B) {
		perRecord(b, payload, n, func() error { return decodeWithEncodingJSON(payload) })
	})
}

// perRecord runs decode and reports its cost a record.
func perRecord(b *testing.B, payload []byte, records int, decode func() error) {
	b.SetBytes(int64(len(payload)))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b.Loop() {
		if err := decode(); err != nil {
			b.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	total := float64(b.N) * float64(records)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/total, "ns/record")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/total, "allocs/record")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/total, "B/record")
}

func decodeWithEncodingJSON(payload []byte) error {
	var event events.KafkaEvent
	if err := json.Unmarshal(payload, &event); err != nil {
		return err
	}
	for _, records := range event.Records {
		for _, r := range records {
			for _, text := range []string{r.Key, r.Value} {
				if _, err := base64.StdEncoding.DecodeString(text); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

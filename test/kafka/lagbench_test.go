package kafka_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	appprocess "github.com/idemsk/idemsk/app/process"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/kafka"
)

// quietProcess is the value of processVariable for a process whose handler takes 5 ms and writes nothing.
const quietProcess = "quiet"

func quietly() {
	appprocess.Start(kafka.HandlerFunc(func(ctx context.Context, _ kafka.Record) ([]byte, error) {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
		}
		return nil, ctx.Err()
	}))
}

// BenchmarkMemoryAtALag measures the resident memory of a process on a DynamoDB that answers after 5 ms,
// while it reads a topic with a lag of 10 million records of 1 KB. One iteration is a second of it. The first
// 30 seconds are not counted as growth.
func BenchmarkMemoryAtALag(b *testing.B) {
	const settling = 30 // seconds
	db, err := dynamofake.New(dynamofake.Config{Latency: 5 * time.Millisecond})
	if err != nil {
		b.Fatal(err)
	}
	if err := db.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	client := dynamostore.NewClient(aws.Config{Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")},
		func(o *dynamodb.Options) { o.BaseEndpoint = aws.String(db.URL()) })
	if err := dynamostore.CreateTable(b.Context(), client, dynamostore.DefaultTable); err != nil {
		b.Fatal(err)
	}
	p := startProcess(b, laggingTopic(b).ListenAddrs(), processVariable+"="+quietProcess,
		"IDEMSK_STORE=dynamodb", "IDEMSK_KEY=offset", "IDEMSK_HTTP_ADDR=",
		"AWS_ENDPOINT_URL_DYNAMODB="+db.URL(), "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=test",
		"AWS_SECRET_ACCESS_KEY=test")
	var most, settled int64
	seconds := 0
	for b.Loop() {
		<-time.After(time.Second)
		now := resident(b, p.PID())
		if seconds++; seconds <= settling {
			settled = max(settled, now)
		}
		most = max(most, now)
	}
	b.ReportMetric(float64(most)/(1<<20), "MiB")
	b.ReportMetric(float64(most-settled)/(1<<20), "MiB-after-30s")
	b.ReportMetric(db.Usage().WriteUnits/2, "records") // each is written twice, with 1 unit
	b.ReportMetric(0, "ns/op")
}

// resident returns the resident memory of a process in bytes.
func resident(b *testing.B, pid int) int64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if kb, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseInt(strings.Fields(kb)[0], 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			return n << 10
		}
	}
	b.Fatalf("process %d has no VmRSS", pid)
	return 0
}

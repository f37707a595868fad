// Program goloop is what a team writes first: a loop over the records with two requests each, on the AWS SDK for Go.
package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"github.com/idemsk/idemsk/bench/internal/peer"
)

const (
	keyHeader = "idempotency-key"
	retention = 7 * 24 * time.Hour
)

type payment struct {
	PaymentID string `json:"paymentId"`
	Amount    int64  `json:"amount"`
}

// loop handles up to limit records at once, the records of a lane one after another.
type loop struct {
	db          *dynamodb.Client
	table       string
	limit       int
	byPartition bool // a lane is a partition; otherwise each record is a lane
	handled     atomic.Int64
}

func main() { peer.Main(newLoop) }

func newLoop(ctx context.Context) (peer.Function, error) {
	limit, err := strconv.Atoi(cmp.Or(os.Getenv("BENCH_CONCURRENCY"), "1"))
	if err != nil {
		return nil, fmt.Errorf("BENCH_CONCURRENCY: %w", err)
	}
	// The SDK keeps 10 idle connections; with more at once than that, it would open a new one for most requests.
	client := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.MaxIdleConnsPerHost = max(10, limit) })
	cfg, err := config.LoadDefaultConfig(ctx, config.WithHTTPClient(client))
	if err != nil {
		return nil, err
	}
	return &loop{
		db: dynamodb.NewFromConfig(cfg), table: os.Getenv("BENCH_TABLE"), limit: limit, byPartition: os.Getenv("BENCH_ORDER") == "partition",
	}, nil
}

// Invoke implements peer.Function.
func (l *loop) Invoke(ctx context.Context, payload []byte) (int, error) {
	var event events.KafkaEvent
	if err := json.Unmarshal(payload, &event); err != nil {
		return 0, fmt.Errorf("decoding the event: %w", err)
	}
	l.handled.Store(0)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(l.limit)
	for _, records := range event.Records {
		if l.byPartition {
			group.Go(func() error { return l.lane(ctx, records) })
			continue
		}
		for i := range records {
			group.Go(func() error { return l.lane(ctx, records[i:i+1]) })
		}
	}
	err := group.Wait()
	return int(l.handled.Load()), err
}

func (l *loop) lane(ctx context.Context, records []events.KafkaRecord) error {
	for i := range records {
		if err := l.process(ctx, &records[i]); err != nil {
			return err
		}
	}
	return nil
}

func (l *loop) process(ctx context.Context, r *events.KafkaRecord) error {
	key := keyOf(r)
	fresh, err := l.claim(ctx, key)
	if err != nil || !fresh {
		return err
	}
	value, err := base64.StdEncoding.DecodeString(r.Value)
	if err != nil {
		return fmt.Errorf("decoding the value: %w", err)
	}
	var p payment
	if err := json.Unmarshal(value, &p); err != nil {
		return fmt.Errorf("decoding the payment: %w", err)
	}
	l.handled.Add(1)
	return l.complete(ctx, key, p.PaymentID)
}

func keyOf(r *events.KafkaRecord) string {
	for _, header := range r.Headers {
		if value, ok := header[keyHeader]; ok {
			return string(value)
		}
	}
	return ""
}

func (l *loop) claim(ctx context.Context, key string) (fresh bool, err error) {
	now := time.Now()
	_, err = l.db.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &l.table,
		Item: map[string]types.AttributeValue{
			"id":         &types.AttributeValueMemberS{Value: key},
			"status":     &types.AttributeValueMemberS{Value: "STARTED"},
			"expiration": number(now.Add(retention)),
		},
		ConditionExpression:      aws.String("attribute_not_exists(#id) OR #expiration < :now"),
		ExpressionAttributeNames: map[string]string{"#id": "id", "#expiration": "expiration"},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":now": number(now),
		},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	var failed *types.ConditionalCheckFailedException
	if !errors.As(err, &failed) {
		return err == nil, err
	}
	if status, ok := failed.Item["status"].(*types.AttributeValueMemberS); !ok || status.Value != "COMPLETED" {
		return false, fmt.Errorf("the key %q is in flight elsewhere", key)
	}
	return false, nil
}

func (l *loop) complete(ctx context.Context, key, result string) error {
	_, err := l.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                &l.table,
		Key:                      map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: key}},
		UpdateExpression:         aws.String("SET #status = :status, #data = :data, #expiration = :expiration"),
		ExpressionAttributeNames: map[string]string{"#status": "status", "#data": "data", "#expiration": "expiration"},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":status":     &types.AttributeValueMemberS{Value: "COMPLETED"},
			":data":       &types.AttributeValueMemberS{Value: result},
			":expiration": number(time.Now().Add(retention)),
		},
	})
	return err
}

func number(t time.Time) *types.AttributeValueMemberN {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(t.Unix(), 10)}
}

// Program floor sends the requests that idemsk sends for fresh records in key order, in the same waves, and
// does nothing else: no decoding, no keys, no handler, no outcomes. What idemsk takes beyond it is idemsk's
// own.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
	"github.com/idemsk/idemsk/test/bench/internal/peer"
)

// How idemsk sends: claims are gathered 1, 2, 3 and then 4 requests at a time, and up to 6 times before the
// first of them are answered and their records at work; of completions idem.Defaults().CommitWindow may be on
// their way.
const (
	claimsAtOnce      = 4
	aheadAtOnce       = 6
	completionsAtOnce = 256 / dynamostore.MaxBatchSize // 256 is the default of idem.Config.CommitWindow
)

func main() {
	peer.Main(func(ctx context.Context) (peer.Function, error) {
		// It does not handle lost replies: it waits longer for it than idemsk does. And it keeps its
		// connections, of which the SDK would keep 10.
		patient := awshttp.NewBuildableClient().WithTimeout(time.Minute).WithTransportOptions(
			func(t *http.Transport) { t.MaxIdleConnsPerHost = 32 })
		cfg, err := config.LoadDefaultConfig(ctx, config.WithHTTPClient(patient))
		if err != nil {
			return nil, err
		}
		return &floor{db: dynamostore.NewClient(cfg), table: os.Getenv("BENCH_TABLE")}, nil
	})
}

type floor struct {
	db     *dynamodb.Client
	table  string
	record recorder
}

// Prepare implements peer.Preparer: it records what idemsk's store sends for the event's records.
func (f *floor) Prepare(ctx context.Context, payload []byte) error {
	event, err := msk.Decode(payload)
	if err != nil {
		return err
	}
	f.record = recorder{}
	st, err := dynamostore.New(&f.record, dynamostore.Config{Table: f.table})
	if err != nil {
		return err
	}
	var claims []store.ClaimRequest
	for _, records := range event.Partitions {
		for r := range records {
			record := &records[r]
			key, err := kafka.HeaderKey(kafka.DefaultKeyHeader)(ctx, record)
			if err != nil {
				return err
			}
			claims = append(claims, store.ClaimRequest{
				Key: "bench#" + record.Topic + "#" + key, Owner: "function/0123456789abcdef",
				Fingerprint: store.FingerprintOf(record.Value),
				Source:      record.Source(), Lease: idem.Defaults().Lease,
				Retention: idem.Defaults().Retention,
			})
		}
	}
	settlements := make([]store.Settlement, len(claims))
	for i, res := range st.Claim(ctx, claims) {
		settlements[i] = store.Settlement{
			Op: store.OpComplete, Key: res.Entry.Key, Token: res.Entry.Token, Owner: res.Entry.Owner,
			Result: fmt.Appendf(nil, "%q", res.Entry.Key), Retention: idem.Defaults().Retention,
		}
	}
	return errors.Join(st.Settle(ctx, settlements)...)
}

// Invoke implements peer.Function.
func (f *floor) Invoke(ctx context.Context, _ []byte) (int, error) {
	requests := f.record.requests
	claims, completions := requests[:len(requests)/2], requests[len(requests)/2:]
	var behind errgroup.Group
	behind.SetLimit(completionsAtOnce)
	var ahead []wave
	times := 1
	for next := 0; next < len(claims) || len(ahead) > 0; {
		for ; len(ahead) < aheadAtOnce && next < len(claims); times++ {
			to := min(next+min(times, claimsAtOnce), len(claims))
			ahead = append(ahead, f.claim(ctx, claims[next:to], completions[next:to]))
			next = to
		}
		if err := ahead[0].claims.Wait(); err != nil {
			return 0, err
		}
		for _, in := range ahead[0].completions {
			behind.Go(func() error { return f.send(ctx, in) })
		}
		ahead = ahead[1:]
	}
	return f.record.statements / 2, behind.Wait()
}

// wave is what is claimed at a time, and what completes it.
type wave struct {
	claims      *errgroup.Group
	completions []*dynamodb.BatchExecuteStatementInput
}

func (f *floor) claim(ctx context.Context, claims, completions []*dynamodb.BatchExecuteStatementInput) wave {
	w := wave{claims: new(errgroup.Group), completions: completions}
	for _, in := range claims {
		w.claims.Go(func() error { return f.send(ctx, in) })
	}
	return w
}

func (f *floor) send(ctx context.Context, in *dynamodb.BatchExecuteStatementInput) error {
	out, err := f.db.BatchExecuteStatement(ctx, in)
	if err != nil {
		return err
	}
	for i := range out.Responses {
		if e := out.Responses[i].Error; e != nil {
			return fmt.Errorf("a statement failed: %s: %s", e.Code, aws.ToString(e.Message))
		}
	}
	return nil
}

// recorder keeps requests instead of sending them, and says of each that it succeeded.
type recorder struct {
	dynamostore.Client // none: nothing but the batches is sent

	mu         sync.Mutex
	requests   []*dynamodb.BatchExecuteStatementInput
	statements int
}

// BatchExecuteStatement implements dynamostore.Client.
func (r *recorder) BatchExecuteStatement(
	_ context.Context, in *dynamodb.BatchExecuteStatementInput, _ ...func(*dynamodb.Options),
) (*dynamodb.BatchExecuteStatementOutput, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, in)
	r.statements += len(in.Statements)
	return &dynamodb.BatchExecuteStatementOutput{Responses: make([]types.BatchStatementResponse,
		len(in.Statements))}, nil
}

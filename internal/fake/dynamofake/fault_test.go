package dynamofake_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idemsk/idemsk/internal/fake/dynamofake"
)

// once returns a hook that injects a fault into the first PutItem.
func once(fault dynamofake.Fault) func(string, []byte) dynamofake.Fault {
	var struck atomic.Bool
	return func(operation string, _ []byte) dynamofake.Fault {
		if operation == "PutItem" && struck.CompareAndSwap(false, true) {
			return fault
		}
		return dynamofake.Fault{}
	}
}

// putNew makes a conditional write with the retries of the SDK.
func putNew(db *dynamodb.Client) error {
	_, err := db.PutItem(context.Background(), &dynamodb.PutItemInput{
		TableName: aws.String(table), Item: key("a"),
		ConditionExpression: aws.String("attribute_not_exists(k)"),
	}, func(o *dynamodb.Options) {
		o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) {
			o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
		})
	})
	return err
}

func TestErrorBeforePerforming(t *testing.T) {
	for _, fault := range []*dynamofake.Error{dynamofake.Throttled(), dynamofake.Internal()} {
		t.Run(fault.Code, func(t *testing.T) {
			server, db := start(t, dynamofake.Config{Fault: once(dynamofake.Fault{Error: fault})})
			if err := putNew(db); err != nil {
				t.Errorf("the retry found something that the failed request left: %v", err)
			}
			if n := server.Usage().Requests["PutItem"]; n != 2 {
				t.Errorf("%d requests, want 2", n)
			}
		})
	}
}

// served runs a PutItem against the handler in a synctest bubble. dropped reports whether it got no answer.
type served struct {
	after   time.Duration
	dropped bool
	code    int
}

func serve(ctx context.Context, server *dynamofake.Server) (result served) {
	began := time.Now()
	defer func() {
		result.after = time.Since(began)
		err, _ := recover().(error)
		result.dropped = errors.Is(err, http.ErrAbortHandler)
	}()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/",
		strings.NewReader(`{"TableName":"table","Item":{"k":{"S":"a"}}}`))
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810.PutItem")
	w := httptest.NewRecorder()
	server.ServeHTTP(w, r)
	result.code = w.Code
	return result
}

func TestLatencyAndDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fault := dynamofake.Fault{Delay: 2 * time.Second, ReplyDelay: 4 * time.Second}
		server := unstarted(t, dynamofake.Config{Latency: time.Second, Fault: once(fault)})
		if got := serve(t.Context(), server); got != (served{after: 7 * time.Second, code: http.StatusOK}) {
			t.Errorf("with delays: %+v", got)
		}
		if got := serve(t.Context(), server); got != (served{after: time.Second, code: http.StatusOK}) {
			t.Errorf("with latency only: %+v", got)
		}
	})
}

func TestClientGoesAway(t *testing.T) {
	for _, c := range []struct {
		name   string
		fault  dynamofake.Fault
		stored bool
	}{
		{"before", dynamofake.Fault{Delay: time.Hour}, false},
		{"behind", dynamofake.Fault{ReplyDelay: time.Hour}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := unstarted(t, dynamofake.Config{Fault: once(c.fault)})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if got := serve(ctx, server); got != (served{after: time.Second, dropped: true}) {
					t.Errorf("got %+v", got)
				}
				if stored := server.Usage().WriteUnits > 0; stored != c.stored {
					t.Errorf("stored %v, want %v", stored, c.stored)
				}
			})
		})
	}
}

func TestCloseEndsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := unstarted(t, dynamofake.Config{Latency: time.Hour})
		result := make(chan served)
		go func() { result <- serve(t.Context(), server) }()
		synctest.Wait()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if got := <-result; got != (served{dropped: true}) {
			t.Errorf("got %+v", got)
		}
	})
}

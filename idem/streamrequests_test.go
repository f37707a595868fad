package idem_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
)

// The requests to DynamoDB for an item of a stream, with 2,000 items in progress, in 12 lanes and in 1,000.
// Requests take 5 ms of virtual time.
func TestRequestsOfAStream(t *testing.T) {
	// 12 handlers return at a time, and their completions fill no request.
	for lanes, most := range map[int]float64{12: 0.093, 1000: 0.09} {
		t.Run(fmt.Sprint(lanes, " lanes"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, scheduler := dynamo(t, idem.Config{})
				for _, round := range []struct {
					name  string
					limit float64
				}{{"fresh", most}, {"duplicates", 0.06}} {
					db.ResetUsage()
					const items = 5_000
					streamAll(scheduler, items,
						func(i int) *idem.Item { return &idem.Item{Lane: fmt.Sprint(i % lanes)} })
					requests := 0
					for _, n := range db.Usage().Requests {
						requests += n
					}
					each := float64(requests) / items
					t.Logf("%s: %.4f requests an item", round.name, each)
					if each > round.limit {
						t.Errorf("%s: %.4f requests an item; want at most %v: %v", round.name, each,
							round.limit, db.Usage().Requests)
					}
				}
			})
		})
	}
}

// streamAll handles items with the keys k0, k1, … in a new stream.
func streamAll(scheduler *idem.Scheduler, items int, item func(i int) *idem.Item) {
	slots := make(chan struct{}, 2000)
	var all sync.WaitGroup
	all.Add(items)
	stream := scheduler.Stream(context.Background(), func(*idem.Item) { <-slots; all.Done() }, nil)
	handler := idem.HandlerFunc(func(context.Context) ([]byte, error) { return nil, nil })
	for i := range items {
		slots <- struct{}{}
		it := item(i)
		it.Task = idem.Task{Key: fmt.Sprint("k", i), Handler: handler}
		stream.Add(it)
	}
	all.Wait()
	stream.Close(context.Background())
}

// called is a client that calls DynamoDB without a network, so that time is virtual.
type called struct{ db *dynamofake.Server }

// Do implements aws.HTTPClient.
func (c called) Do(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	c.db.ServeHTTP(w, r)
	return w.Result(), nil
}

// dynamo returns an in-process DynamoDB that answers after 5 ms, and a scheduler on it.
func dynamo(t *testing.T, cfg idem.Config) (*dynamofake.Server, *idem.Scheduler) {
	t.Helper()
	db, err := dynamofake.New(dynamofake.Config{Latency: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	client := dynamostore.NewClient(aws.Config{
		Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient: called{db},
	}, func(o *dynamodb.Options) { o.BaseEndpoint = aws.String("http://dynamodb.test") })
	if err := dynamostore.CreateTable(t.Context(), client, dynamostore.DefaultTable); err != nil {
		t.Fatal(err)
	}
	st, err := dynamostore.New(client, dynamostore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := idem.New(st, cfg)
	if err != nil {
		t.Fatal(err)
	}
	scheduler, err := idem.NewScheduler(engine, idem.SchedulerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return db, scheduler
}

// Other processes take over the keys of one that dies one at a time. So a stream claims few keys ahead of its
// handlers: as many as keep them busy, in requests of as many claims as there are handlers.
func TestStreamClaimsFewKeysAheadOfItsHandlers(t *testing.T) {
	const slots, rounds, items = 8, 100, 2000
	for _, size := range []int{25, 100} {
		for _, took := range []time.Duration{5 * time.Millisecond, 50 * time.Millisecond, time.Second} {
			t.Run(fmt.Sprintf("handlers of %v, %d claims in a request", took, size), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &streaming{TB: t,
						store: &spyStore{Store: memstore.New(memstore.Config{BatchSize: size}),
							latency: 5 * time.Millisecond}}
					s.start(t.Context(), idem.Config{}, idem.SchedulerConfig{Concurrency: slots})
					for i := range items {
						source := fmt.Sprint("k", i)
						s.stream.Add(in(source,
							s.item(source, source,
								func(context.Context) error {
									pass(
										took - time.Millisecond)
									return nil
								}))...)
					}
					most := 0
					for began := time.Now(); time.Since(began) < rounds*took; pass(took / 3) {
						synctest.Wait()
						most = max(most, s.held())
					}
					if limit := 8 * slots; most > limit {
						t.Errorf("%d keys were claimed at once; want at most %d", most, limit)
					}
					s.mu.Lock()
					if least := slots * rounds * 99 / 100; len(s.calls) < least {
						t.Errorf("%d handlers were called; want at least %d", len(s.calls), least)
					}
					s.mu.Unlock()
					if n, limit := len(s.store.calls()), rounds+10; n > limit {
						t.Errorf("%d requests of claims; want at most %d", n, limit)
					}
					s.stream.Close(context.Background())
				})
			})
		}
	}
}

// Many handlers are kept busy too: neither their claims nor their completions bound them.
func TestStreamKeepsManyHandlersBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots, rounds, took = 260, 40, 100 * time.Millisecond
		s := &streaming{TB: t, store: &spyStore{Store: memstore.New(memstore.Config{BatchSize: 5}),
			latency: 5 * time.Millisecond}}
		s.start(t.Context(), idem.Config{CommitWindow: idem.DefaultCommitWindow(slots)},
			idem.SchedulerConfig{Concurrency: slots})
		for i := range slots * (rounds + 2) {
			source := fmt.Sprint("k", i)
			s.stream.Add(in(source, s.item(source, source,
				func(context.Context) error { pass(took); return nil }))...)
		}
		pass(took) // for an estimate
		before := s.called()
		pass(rounds * took)
		if n, least := s.called()-before, slots*rounds*98/100; n < least {
			t.Errorf("%d handlers were called; want at least %d", n, least)
		}
		if n, limit := s.held(), slots*5/4; n > limit {
			t.Errorf("%d keys are claimed; want at most %d", n, limit)
		}
		s.stream.Close(context.Background())
	})
}

// called returns the number of calls of handlers.
func (s *streaming) called() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

// The claims behind handlers that hang are not counted against the other lanes.
func TestStreamClaimsBehindHandlersThatHangHoldUpNoOtherLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots, items = 8, 1000
		s := newStreaming(t, idem.Config{}, idem.SchedulerConfig{Concurrency: slots})
		s.add("warm up", "w1", "w2") // for an estimate, with which many claims are sent
		pass(time.Second)
		for i := range slots - 1 {
			lane := fmt.Sprint("hangs", i)
			s.stream.Add(in(lane, s.item("", lane,
				func(context.Context) error { pass(time.Hour); return nil }))...)
			for n := range 50 {
				s.add(lane, fmt.Sprint(lane, "-", n))
			}
		}
		pass(time.Second)
		for i := range items {
			s.add(fmt.Sprint("lane", i), fmt.Sprint("k", i))
		}
		pass(2 * time.Second) // less than a claim may wait
		s.mu.Lock()
		equal(t, "handlers called", len(s.calls), 2+slots-1+items)
		s.mu.Unlock()
		pass(2 * time.Hour)
		s.close()
	})
}

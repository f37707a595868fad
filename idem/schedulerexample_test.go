package idem_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
)

// message is a message of any queue.
type message struct{ ID, Account, Text string }

// The messages of one account are handled in order. The second delivery of m1 shares the outcome of the
// first.
func Example() {
	engine, err := idem.New(memstore.New(memstore.Config{BatchSize: 25}), idem.Config{})
	if err != nil {
		log.Fatal(err)
	}
	scheduler, err := idem.NewScheduler(engine, idem.SchedulerConfig{Concurrency: 1})
	if err != nil {
		log.Fatal(err)
	}
	messages := []message{{"m1", "a", "credit 5"}, {"m2", "b", "credit 7"}, {"m3", "a", "debit 9"},
		{"m1", "a", "credit 5"}}
	lanes := map[string][]*idem.Item{}
	for _, m := range messages {
		lanes[m.Account] = append(lanes[m.Account], &idem.Item{Task: idem.Task{
			Key: m.ID, Fingerprint: store.FingerprintOf([]byte(m.Text)), Source: "queue/" + m.ID,
			Handler: idem.HandlerFunc(func(context.Context) ([]byte, error) {
				fmt.Println(m.Account+":", m.Text)
				return nil, nil
			}),
		}})
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	scheduler.Run(ctx, [][]*idem.Item{lanes["a"], lanes["b"]})
	for _, it := range lanes["a"] { // a settled message is acknowledged; the queue delivers the others again
		fmt.Println(it.Task.Source, it.Outcome.Kind, "duplicate:", it.Duplicate, "acknowledge:",
			it.Outcome.Kind.Settled())
	}
	// Unordered output:
	// a: credit 5
	// a: debit 9
	// b: credit 7
	// queue/m1 Executed duplicate: false acknowledge: true
	// queue/m3 Executed duplicate: false acknowledge: true
	// queue/m1 Executed duplicate: true acknowledge: true
}

// A handler writes many messages in one statement. The message that it could not write is delivered again.
func ExampleBulkHandler() {
	engine, err := idem.New(memstore.New(memstore.Config{BatchSize: 25}), idem.Config{})
	if err != nil {
		log.Fatal(err)
	}
	insert := func(_ context.Context, items []*idem.Item) ([]idem.BulkResult, error) {
		results := make([]idem.BulkResult, len(items))
		var rows []string
		for i, it := range items {
			if it.Task.Key == "m2" {
				results[i].Err = errors.New("no such account")
				continue
			}
			rows = append(rows, it.Task.Key)
		}
		fmt.Println(len(rows), "rows inserted")
		return results, nil
	}
	scheduler, err := idem.NewScheduler(engine, idem.SchedulerConfig{Bulk: insert})
	if err != nil {
		log.Fatal(err)
	}
	for delivery := range 2 {
		var lanes [][]*idem.Item // one for each message: they need no order
		for _, id := range []string{"m1", "m2", "m3", "m1"} {
			lanes = append(lanes, []*idem.Item{{Task: idem.Task{Key: id}}})
		}
		scheduler.Run(context.Background(), lanes)
		fmt.Println("delivery", delivery+1)
		for _, lane := range lanes {
			fmt.Println(" ", lane[0].Task.Key, lane[0].Outcome.Kind)
		}
	}
	// Output:
	// 2 rows inserted
	// delivery 1
	//   m1 Executed
	//   m2 Retry
	//   m3 Executed
	//   m1 Executed
	// 0 rows inserted
	// delivery 2
	//   m1 Replayed
	//   m2 Retry
	//   m3 Replayed
	//   m1 Replayed
}

// A consumer adds messages as they arrive, with at most 100 in progress, and acknowledges each message that
// is settled.
func ExampleScheduler_Stream() {
	engine, err := idem.New(memstore.New(memstore.Config{BatchSize: 25}), idem.Config{})
	if err != nil {
		log.Fatal(err)
	}
	scheduler, err := idem.NewScheduler(engine, idem.SchedulerConfig{Backoff: 10 * time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	inProgress := make(chan struct{}, 100)
	acknowledge := func(it *idem.Item) {
		fmt.Println(it.Task.Source, it.Outcome.Kind, "attempt:", it.Outcome.Attempt)
		<-inProgress
	}
	stream := scheduler.Stream(context.Background(), acknowledge, nil)
	failures := 1
	for _, m := range []message{{"m1", "a", "credit 5"}, {"m2", "b", "credit 7"}, {"m3", "a", "debit 9"}} {
		inProgress <- struct{}{}
		stream.Add(&idem.Item{Lane: m.Account, Task: idem.Task{
			Key: m.ID, Fingerprint: store.FingerprintOf([]byte(m.Text)), Source: "queue/" + m.ID,
			Handler: idem.HandlerFunc(func(context.Context) ([]byte, error) {
				if m.ID == "m1" && failures > 0 {
					failures--
					return nil, errors.New("the account is locked")
				}
				return nil, nil
			}),
		}})
	}
	for range cap(inProgress) { // until all are settled
		inProgress <- struct{}{}
	}
	stream.Close(context.Background())
	// Unordered output:
	// queue/m1 Executed attempt: 2
	// queue/m2 Executed attempt: 1
	// queue/m3 Executed attempt: 1
}

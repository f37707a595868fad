package idem_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/observe"
	"github.com/idemsk/idemsk/idem/store"
)

func ExampleEngine_Do() {
	engine, err := idem.New(memstore.New(memstore.Config{}), idem.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	balance := 0
	payment := idem.Task{
		Key:         "payments#p-17",
		Fingerprint: store.FingerprintOf([]byte(`{"amount":1250}`)),
		Source:      "payments-0@4711",
		Handler: idem.HandlerFunc(func(context.Context) ([]byte, error) {
			balance += 1250
			return fmt.Appendf(nil, "balance %d", balance), nil
		}),
	}
	for range 2 { // Kafka delivers at least once
		out := engine.Do(context.Background(), payment)
		fmt.Printf("%v: %s\n", out.Kind, out.Result)
	}

	payment.Fingerprint = store.FingerprintOf([]byte(`{"amount":9999}`))
	out := engine.Do(context.Background(), payment)
	fmt.Println(out.Kind, errors.Is(out.Err, store.ErrFingerprintMismatch))
	// Output:
	// Executed: balance 1250
	// Replayed: balance 1250
	// Mismatched true
}

// timings prints the steps of a task.
type timings struct{}

// Observe implements idem.Observer.
func (timings) Observe(_ context.Context, e idem.Event) {
	if e.Step == observe.End {
		fmt.Println(e.Step, e.Outcome.Kind)
		return
	}
	fmt.Println(e.Step, e.Task.Source, e.Took < time.Minute)
}

func ExampleObserver() {
	engine, err := idem.New(memstore.New(memstore.Config{}), idem.Config{Observer: timings{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	engine.Do(context.Background(), idem.Task{
		Key: "payments#p-17", Source: "payments-0@4711",
		Handler: idem.HandlerFunc(func(context.Context) ([]byte, error) { return nil, nil }),
	})
	// Output:
	// Claim payments-0@4711 true
	// Handle payments-0@4711 true
	// Settle payments-0@4711 true
	// End Executed
}

// A ledger that stores the greatest token it has seen refuses a stale owner.
func ExampleAttemptFrom() {
	engine, err := idem.New(memstore.New(memstore.Config{}), idem.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var greatest int64
	post := func(token int64, entry string) {
		if token < greatest {
			fmt.Println("refused:", entry)
			return
		}
		greatest = token
		fmt.Println("posted:", entry)
	}
	engine.Do(context.Background(), idem.Task{
		Key: "payments#p-17",
		Handler: idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
			attempt, _ := idem.AttemptFrom(ctx)
			fmt.Println(attempt.Key, "attempt", attempt.Number)
			post(attempt.Token, "by its owner")
			post(attempt.Token-1, "by an owner before it, late")
			return nil, nil
		}),
	})
	// Output:
	// payments#p-17 attempt 1
	// posted: by its owner
	// refused: by an owner before it, late
}

func ExamplePermanent() {
	engine, err := idem.New(memstore.New(memstore.Config{}), idem.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	task := idem.Task{
		Key: "payments#p-17",
		Handler: idem.HandlerFunc(func(context.Context) ([]byte, error) {
			return nil, idem.Permanent(errors.New("no such account"))
		}),
		DeadLetters: idem.DeadLetterFunc(func(_ context.Context, b idem.DeadLetter) error {
			fmt.Printf("dead letter: %s, attempt %d: %v\n", b.Attempt.Key, b.Attempt.Number, b.Err)
			return nil
		}),
	}
	for range 2 {
		out := engine.Do(context.Background(), task)
		fmt.Println(out.Kind, "settled:", out.Kind.Settled())
	}
	// Output:
	// dead letter: payments#p-17, attempt 1: no such account
	// DeadLettered settled: true
	// ReplayedFailed settled: true
}

// After a transient error the key can be claimed by another delivery when the delay is over.
func ExampleRetryAfter() {
	engine, err := idem.New(memstore.New(memstore.Config{}), idem.Config{Wait: -1})
	if err != nil {
		fmt.Println(err)
		return
	}
	task := idem.Task{
		Key: "payments#p-17",
		Handler: idem.HandlerFunc(func(context.Context) ([]byte, error) {
			return nil, idem.RetryAfter(errors.New("account is being migrated"), time.Hour)
		}),
	}
	for range 2 {
		fmt.Println(engine.Do(context.Background(), task).Kind)
	}
	// Output:
	// Retry
	// InFlight
}

// An outage of a dependency uses up none of the message's attempts.
func ExampleUnavailable() {
	engine, err := idem.New(memstore.New(memstore.Config{}), idem.Config{MaxAttempts: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	up := false
	task := idem.Task{
		Key: "payments#p-17",
		Handler: idem.HandlerFunc(func(context.Context) ([]byte, error) {
			if !up {
				return nil, idem.Unavailable(errors.New("ledger: connection refused"))
			}
			return nil, nil
		}),
		DeadLetters: idem.DeadLetterFunc(func(context.Context, idem.DeadLetter) error { return nil }),
	}
	for i := range 3 {
		up = i == 2
		out := engine.Do(context.Background(), task)
		fmt.Println(out.Kind, "in attempt", out.Attempt)
	}
	// Output:
	// DependencyDown in attempt 1
	// DependencyDown in attempt 1
	// Executed in attempt 1
}

// The claims of many tasks are sent to the store in one call.
func ExampleSession() {
	engine, err := idem.New(memstore.New(memstore.Config{}), idem.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	session := engine.Session(ctx)
	defer session.Close()

	claims := []*idem.Claim{{}, {}, {}}
	for i, key := range []string{"p-17", "p-18", ""} {
		claims[i].Task = idem.Task{Key: key, Source: fmt.Sprintf("payments-0@%d", i),
			Handler: idem.HandlerFunc(func(context.Context) ([]byte, error) {
				return []byte("receipt of " + key), nil
			})}
	}
	session.Claim(claims)
	session.Release(claims[1:2]) // not run now; its attempt is refunded
	for i := range claims {
		out := session.Run(claims[i])
		fmt.Printf("%v %s %v\n", out.Kind, out.Result, out.Err)
	}
	// Output:
	// Executed receipt of p-17 <nil>
	// Unknown  <nil>
	// InvalidKey  idem: invalid key: it is empty (from payments-0@2)
}

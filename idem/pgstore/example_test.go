package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
)

// The statement is sent with the completion, in one transaction with those of other records. The payment fails for
// good if there is no such account.
func ExampleEnlistRows() {
	errNoAccount := errors.New("no such account")
	handler := idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
		return []byte(`{"paid":10}`), pgstore.EnlistRows(ctx, 1, idem.Permanent(errNoAccount),
			`UPDATE accounts SET balance = balance - $2 WHERE id = $1`, "alice", 10)
	})
	_, err := handler.Handle(context.Background()) // without an engine
	fmt.Println(idem.IsUnavailable(err))
	// Output: true
}

// The payment commits together with its completion, so redeliveries and crashes do not repeat it.
func ExampleTxFrom() {
	ctx := context.Background()
	pool, err := pgstore.NewPool(os.Getenv("IDEMSK_STORE_URL"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	store, err := pgstore.New(pool, pgstore.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := store.Check(ctx); err != nil {
		fmt.Println(err)
		return
	}
	engine, err := idem.New(store, idem.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	out := engine.Do(ctx, idem.Task{
		Key: "payments#4711",
		Handler: idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
			tx, err := pgstore.TxFrom(ctx)
			if err != nil {
				return nil, err
			}
			_, err = tx.Exec(ctx, `UPDATE accounts SET balance = balance - $2 WHERE id = $1`, "alice", 10)
			return []byte(`{"paid":10}`), err
		}),
	})
	fmt.Println(out.Kind, string(out.Result))
}

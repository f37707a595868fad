package pgstore_test

import (
	"context"
	"fmt"
	"os"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
)

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

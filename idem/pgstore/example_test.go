package pgstore_test

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
)

// The payment is made once, however often its message comes and whatever dies meanwhile: it commits with its completion.
func ExampleTxStore() {
	ctx := context.Background()
	pool, err := pgstore.NewPool(os.Getenv("IDEMSK_STORE_URL"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	store, err := pgstore.NewTx(pool, pgstore.TxConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
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
		Handler: store.Handler(func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
			_, err := tx.Exec(ctx, `UPDATE accounts SET balance = balance - $2 WHERE id = $1`, "alice", 10)
			return []byte(`{"paid":10}`), err
		}),
	})
	fmt.Println(out.Kind, string(out.Result))
}

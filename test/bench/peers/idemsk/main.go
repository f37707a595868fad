// Program idemsk is the function of a trivial handler as app/lambda builds it from the environment, for the
// benchmark.
package main

import (
	"context"
	"os"
	"sync/atomic"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/app/lambda"
	"github.com/idemsk/idemsk/lambda/msk"
	"github.com/idemsk/idemsk/test/bench/internal/peer"
)

type payment struct {
	PaymentID string `json:"paymentId"`
	Amount    int64  `json:"amount"`
}

// function is the deployed function, but for the Runtime API.
type function struct {
	*lambda.Function
	handled atomic.Int64
}

// Invoke implements peer.Function.
func (f *function) Invoke(ctx context.Context, payload []byte) (int, error) {
	f.handled.Store(0)
	_, err := f.Function.Invoke(ctx, payload)
	return int(f.handled.Load()), err
}

func main() {
	peer.Main(func(ctx context.Context) (peer.Function, error) {
		f := new(function)
		handler := func(context.Context, *lambda.Base) (msk.Handler, error) {
			return msk.JSON(func(_ context.Context, p payment, _ msk.Record) (string, error) {
				f.handled.Add(1)
				return p.PaymentID, nil
			}), nil
		}
		var err error
		f.Function, err = lambda.New(ctx, handler, app.NewVars(os.LookupEnv), os.Stderr, os.Stderr)
		return f, err
	})
}

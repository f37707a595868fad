//go:build rest

package soak

import (
	"context"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/app/lambda"
	"github.com/idemsk/idemsk/lambda/handler/internal/ledger"
	"github.com/idemsk/idemsk/lambda/msk"
)

// leakVariable makes the test binary the example function with a leak.
const leakVariable = "SOAK_LEAK"

func TestMain(m *testing.M) {
	if os.Getenv(leakVariable) != "" {
		lambda.StartFunc(leaking)
	}
	goleak.VerifyTestMain(m)
}

// leaking returns the example function, of which one record in ten leaks memory, a goroutine and a file
// descriptor.
func leaking(ctx context.Context, base *app.Base) (msk.Handler, error) {
	h, err := ledger.Build(nil)(ctx, base)
	each, _ := h.(msk.HandlerFunc)
	var mu sync.Mutex
	var kept [][]byte
	var files []*os.File
	return msk.HandlerFunc(func(ctx context.Context, r msk.Record) ([]byte, error) {
		if r.Offset%20 != 0 { // new records have even offsets
			return each(ctx, r)
		}
		file, err := os.Open(os.DevNull)
		if err != nil {
			return nil, err
		}
		mu.Lock()
		kept, files = append(kept, make([]byte, 256<<10)), append(files, file)
		mu.Unlock()
		go func() { select {} }()
		return each(ctx, r)
	}), err
}

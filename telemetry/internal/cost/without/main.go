// Program without is a function without telemetry, for BenchmarkFirstResponse.
package main

import (
	"context"

	"github.com/idemsk/idemsk/lambda/app"
	"github.com/idemsk/idemsk/lambda/msk"
)

func main() {
	app.Start(func(context.Context, msk.Record) ([]byte, error) { return nil, nil })
}

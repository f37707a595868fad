// Program without is a function without telemetry, for BenchmarkFirstResponse.
package main

import (
	"context"

	"github.com/idemsk/idemsk/app/lambda"
	"github.com/idemsk/idemsk/lambda/msk"
)

func main() {
	lambda.Start(msk.HandlerFunc(func(context.Context, msk.Record) ([]byte, error) { return nil, nil }))
}

// Program with is a function with telemetry, for BenchmarkFirstResponse.
package main

import (
	"context"
	"log"

	"github.com/idemsk/idemsk/app/lambda"
	"github.com/idemsk/idemsk/lambda/msk"
	"github.com/idemsk/idemsk/telemetry"
)

func main() {
	t, err := telemetry.New(telemetry.Config{Group: "ledger", RecordSpans: true})
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(msk.HandlerFunc(func(context.Context, msk.Record) ([]byte, error) { return nil, nil }), t.Option())
}

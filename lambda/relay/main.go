// The relay of a DynamoDB outbox (package dynamooutbox): a Lambda function on the stream of the outbox's
// table, which sends the events to Kafka.
//
// Its event source mapping has FunctionResponseTypes ReportBatchItemFailures, and a ParallelizationFactor of
// 1, because a larger one would not keep the order of the events of a key. It retries for as long as the
// stream keeps records (MaximumRetryAttempts and MaximumRecordAgeInSeconds -1), because Kafka may only be
// unavailable. The function itself parks an event that Kafka rejects.
//
// An invalid configuration ends the process before it requests work from the Runtime API, with one message
// that names every invalid variable. readConfig lists the variables.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/idemsk/idemsk/app"
)

func main() {
	fn, err := newFunction(context.Background(), app.Environment(), os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintf(os.Stderr, "idemsk: the relay can't start:\n%v\n", err)
		os.Exit(1)
	}
	lambda.Start(fn.handle)
}

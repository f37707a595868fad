// The relay of a DynamoDB outbox (package dynamooutbox): a Lambda function on the stream of the outbox's table, which sends the
// events in it to Kafka.
//
// Its event source mapping has FunctionResponseTypes ReportBatchItemFailures, and a ParallelizationFactor of 1, as a larger one
// would not keep the order of a key. It tries for as long as the stream remembers (MaximumRetryAttempts and
// MaximumRecordAgeInSeconds -1), since what can be Kafka's fault alone is nobody's to discard; an event that Kafka rejects the
// function sets aside by itself.
//
// A wrong configuration ends the process before it asks the Runtime API for work, with one message that names every variable
// at fault. The variables are those of readConfig.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/idemsk/idemsk/lambda/app"
)

func main() {
	fn, err := newFunction(context.Background(), app.Environment(), os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintf(os.Stderr, "idemsk: the relay can't start:\n%v\n", err)
		os.Exit(1)
	}
	lambda.Start(fn.handle)
}

// The maintenance of a store of keys: a Lambda function that EventBridge invokes on a schedule, with
// {"task":"reconcile"} or {"task":"prune"}.
//
//   - reconcile reports keys that hang or failed, and compares keys with an export of business records in S3,
//     as idemsk reconcile does. It only reads.
//   - prune deletes keys whose retention is over, in PostgreSQL, as idemsk prune does. DynamoDB and Redis
//     delete such keys themselves.
//
// An invocation whose time is over reports what it found until then, and fails. readConfig lists the
// variables besides those of the consumer: its store, namespace and scope of keys.
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
		fmt.Fprintf(os.Stderr, "idemsk: the maintenance can't start:\n%v\n", err)
		os.Exit(1)
	}
	lambda.Start(fn.handle)
}

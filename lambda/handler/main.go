// The example function, with the built-in stores DynamoDB and memory.
package main

import (
	"github.com/idemsk/idemsk/app/lambda"
	"github.com/idemsk/idemsk/lambda/handler/internal/ledger"
)

func main() {
	lambda.StartFunc(ledger.Build(nil))
}

// The example function's handler as a long-running consumer process, with the built-in stores DynamoDB and memory.
package main

import (
	"github.com/idemsk/idemsk/kafka/app"
	"github.com/idemsk/idemsk/lambda/handler/internal/ledger"
)

func main() {
	app.StartFunc(ledger.Build(nil))
}

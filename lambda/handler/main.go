// The example function, with the built-in stores DynamoDB and memory.
package main

import (
	"github.com/idemsk/idemsk/lambda/app"
	"github.com/idemsk/idemsk/lambda/handler/internal/ledger"
)

func main() {
	app.StartFunc(ledger.Build(nil))
}

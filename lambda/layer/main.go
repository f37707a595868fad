// The Lambda layer, with the built-in store DynamoDB: idempotency for functions in any language. See package
// proxy and docs/layer.md.
package main

import (
	"os"

	"github.com/idemsk/idemsk/lambda/layer/internal/proxy"
)

func main() { proxy.Main(os.Args[1:]) }

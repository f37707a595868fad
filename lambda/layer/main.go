// The Lambda layer, with the built-in store DynamoDB: idempotency for functions in any language. See package
// layerproxy and docs/layer.md.
package main

import (
	"os"

	"github.com/idemsk/idemsk/internal/layercall/layerproxy"
)

func main() { layerproxy.Main(os.Args[1:]) }

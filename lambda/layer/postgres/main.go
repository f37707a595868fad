// The Lambda layer, with PostgreSQL as well.
package main

import (
	"os"

	"github.com/idemsk/idemsk/host/pgapp"
	"github.com/idemsk/idemsk/lambda/layer/internal/proxy"
)

func main() { proxy.Main(os.Args[1:], pgapp.Store()) }

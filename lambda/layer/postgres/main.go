// The Lambda layer, with PostgreSQL as well.
package main

import (
	"os"

	"github.com/idemsk/idemsk/app/postgres"
	"github.com/idemsk/idemsk/lambda/layer/internal/proxy"
)

func main() { proxy.Main(os.Args[1:], postgres.Store()) }

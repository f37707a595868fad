// The Lambda layer, with PostgreSQL as well.
package main

import (
	"os"

	"github.com/idemsk/idemsk/app/postgres"
	"github.com/idemsk/idemsk/internal/layercall/layerproxy"
)

func main() { layerproxy.Main(os.Args[1:], postgres.Store()) }

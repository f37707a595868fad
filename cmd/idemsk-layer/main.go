// Command idemsk-layer is the Lambda layer with decoders of Avro and Protobuf, and with all stores. It is
// here, and not in lambda/layer, because the module of the library does not require that of the decoders. See
// docs/schemas.md.
package main

import (
	"os"

	"github.com/idemsk/idemsk/app/postgres"
	"github.com/idemsk/idemsk/app/redis"
	"github.com/idemsk/idemsk/cmd/internal/schemaenv"
	"github.com/idemsk/idemsk/internal/layercall/layerproxy"
)

func main() { layerproxy.Main(os.Args[1:], postgres.Store(), redis.Store(), schemaenv.Schemas()) }

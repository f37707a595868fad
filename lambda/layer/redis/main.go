// The Lambda layer, with Redis and Valkey as well.
package main

import (
	"os"

	"github.com/idemsk/idemsk/app/redis"
	"github.com/idemsk/idemsk/internal/layercall/layerproxy"
)

func main() { layerproxy.Main(os.Args[1:], redis.Store()) }

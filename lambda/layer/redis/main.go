// The Lambda layer, with Redis and Valkey as well.
package main

import (
	"os"

	"github.com/idemsk/idemsk/host/redisapp"
	"github.com/idemsk/idemsk/lambda/layer/internal/proxy"
)

func main() { proxy.Main(os.Args[1:], redisapp.Store()) }

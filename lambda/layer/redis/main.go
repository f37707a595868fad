// The Lambda layer, with Redis and Valkey as well.
package main

import (
	"os"

	"github.com/idemsk/idemsk/app/redis"
	"github.com/idemsk/idemsk/lambda/layer/internal/proxy"
)

func main() { proxy.Main(os.Args[1:], redis.Store()) }

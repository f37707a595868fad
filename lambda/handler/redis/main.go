// The example function, with Redis in addition to the built-in stores.
package main

import (
	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/app/lambda"
	"github.com/idemsk/idemsk/app/redis"
	"github.com/idemsk/idemsk/lambda/handler/internal/ledger"
	"github.com/idemsk/idemsk/lambda/handler/internal/ledger/redisbooks"
)

func main() {
	lambda.StartFunc(ledger.Build(ledger.Servers{app.StoreRedis: redisbooks.Open}), redis.Store())
}

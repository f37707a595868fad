// The example function, with Redis in addition to the built-in stores.
package main

import (
	"github.com/idemsk/idemsk/host"
	"github.com/idemsk/idemsk/host/redisapp"
	"github.com/idemsk/idemsk/lambda/app"
	"github.com/idemsk/idemsk/lambda/handler/internal/ledger"
	"github.com/idemsk/idemsk/lambda/handler/internal/ledger/redisbooks"
)

func main() {
	app.StartFunc(ledger.Build(ledger.Servers{host.StoreRedis: redisbooks.Open}), redisapp.Store())
}

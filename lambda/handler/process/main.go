// The example function's handler as a long-running consumer process, with all stores and the bucket for large dead
// letters.
package main

import (
	"github.com/idemsk/idemsk/host"
	"github.com/idemsk/idemsk/host/pgapp"
	"github.com/idemsk/idemsk/host/redisapp"
	"github.com/idemsk/idemsk/host/s3app"
	"github.com/idemsk/idemsk/kafka/app"
	"github.com/idemsk/idemsk/lambda/handler/internal/ledger"
	"github.com/idemsk/idemsk/lambda/handler/internal/ledger/pgbooks"
	"github.com/idemsk/idemsk/lambda/handler/internal/ledger/redisbooks"
)

func main() {
	books := ledger.Servers{host.StorePostgres: pgbooks.Open, host.StoreRedis: redisbooks.Open}
	app.StartFunc(ledger.Build(books), pgapp.Store(), redisapp.Store(), s3app.DeadLetterValues())
}

// The example function's handler as a long-running consumer process, with all stores and the bucket for large
// dead letters.
package main

import (
	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/app/postgres"
	"github.com/idemsk/idemsk/app/process"
	"github.com/idemsk/idemsk/app/redis"
	"github.com/idemsk/idemsk/app/s3"
	"github.com/idemsk/idemsk/lambda/handler/internal/ledger"
	"github.com/idemsk/idemsk/lambda/handler/internal/ledger/pgbooks"
	"github.com/idemsk/idemsk/lambda/handler/internal/ledger/redisbooks"
)

func main() {
	books := ledger.Servers{app.StorePostgres: pgbooks.Open, app.StoreRedis: redisbooks.Open}
	process.StartFunc(ledger.Build(books), postgres.Store(), redis.Store(), s3.DeadLetterValues())
}

// The example function, with PostgreSQL in addition to the built-in stores.
package main

import (
	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/app/lambda"
	"github.com/idemsk/idemsk/app/postgres"
	"github.com/idemsk/idemsk/lambda/handler/internal/ledger"
	"github.com/idemsk/idemsk/lambda/handler/internal/ledger/pgbooks"
)

func main() {
	lambda.StartFunc(ledger.Build(ledger.Servers{app.StorePostgres: pgbooks.Open}), postgres.Store())
}

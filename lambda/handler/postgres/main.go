// The example function, with PostgreSQL in addition to the built-in stores.
package main

import (
	"github.com/idemsk/idemsk/host"
	"github.com/idemsk/idemsk/host/pgapp"
	"github.com/idemsk/idemsk/lambda/app"
	"github.com/idemsk/idemsk/lambda/handler/internal/ledger"
	"github.com/idemsk/idemsk/lambda/handler/internal/ledger/pgbooks"
)

func main() {
	app.StartFunc(ledger.Build(ledger.Servers{host.StorePostgres: pgbooks.Open}), pgapp.Store())
}

// The function of the example: a payment ledger, in which a payment that is booked twice can be seen. A team that brings its
// own business replaces this folder; what it needs of idemsk is in main.
package main

import (
	"context"

	"github.com/idemsk/idemsk/lambda/app"
	"github.com/idemsk/idemsk/lambda/msk"
)

func main() {
	app.StartFunc(build)
}

func build(ctx context.Context, base *app.Base) (msk.Handler, error) {
	table := base.Vars.Table("IDEMSK_LEDGER_TABLE", "idemsk-ledger")
	simulate := base.Vars.OneOf("IDEMSK_SIMULATE", "off", "on") == "on"
	if err := base.Vars.Err(); err != nil {
		return nil, err
	}
	var ledger Ledger = newMemoryLedger()
	if base.Config.Store != app.StoreMemory {
		awsCfg, err := base.AWS(ctx)
		if err != nil {
			return nil, err
		}
		ledger = newDynamoLedger(awsCfg, table)
	}
	return msk.JSON((&bookkeeper{ledger: ledger, simulate: simulate, trouble: newTrouble()}).book), nil
}

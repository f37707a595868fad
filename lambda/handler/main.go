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
	atomic := base.Vars.OneOf("IDEMSK_LEDGER", "atomic", "plain") == "atomic" && base.Config.Store != app.StoreNone
	audit := base.Vars.OneOf("IDEMSK_AUDIT", "off", "on") == "on"
	entries := base.Vars.Table("IDEMSK_AUDIT_TABLE", "idemsk-audit")
	events := readPublishing(base, atomic)
	if err := base.Vars.Err(); err != nil {
		return nil, err
	}
	book := func(l Ledger) msk.Handler {
		return msk.JSON((&bookkeeper{ledger: l, events: events, simulate: simulate, trouble: newTrouble()}).book)
	}
	switch base.Config.Store {
	case app.StoreMemory:
		if atomic {
			return book(memoryAtomicLedger{newMemoryLedger()}), nil
		}
		return book(newMemoryLedger()), nil
	case app.StorePostgres:
		return bookInPostgres(base, table, events, book)
	case app.StoreRedis:
		return bookInRedis(ctx, base, table, book)
	}
	if !audit {
		entries = ""
	}
	if atomic {
		return events.inDynamoDB(base, book(atomicLedger{table: table, audit: entries}))
	}
	awsCfg, err := base.AWS(ctx)
	if err != nil {
		return nil, err
	}
	ledger := newDynamoLedger(awsCfg, table)
	if audit {
		return book(&auditLedger{dynamoLedger: ledger, audit: entries}), nil
	}
	return book(ledger), nil
}

// Package ledger is the business code of the example: a payment ledger, which shows whether a payment was
// booked twice. Its programs, one for each store, are in the parent folders. Applications replace all of
// them.
package ledger

import (
	"context"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/lambda/msk"
)

// Books is a ledger with the wrapper that its handler needs.
type Books struct {
	Ledger Ledger
	Within func(msk.HandlerFunc) msk.HandlerFunc // wraps the handler; may be nil
}

// Open opens the books on the server of a store.
type Open func(ctx context.Context, base *app.Base, table string, events Publishing) (Books, error)

// Servers open the books of a program's additional stores, by the value of IDEMSK_STORE.
type Servers map[string]Open

// Build returns the app.Build of a program with these additional stores.
func Build(servers Servers) app.Build {
	return func(ctx context.Context, base *app.Base) (msk.Handler, error) {
		simulate := base.Vars.OneOf("IDEMSK_SIMULATE", "off", "on") == "on"
		s := readSettings(base)
		if err := base.Vars.Err(); err != nil {
			return nil, err
		}
		books, err := s.open(ctx, base, servers)
		if err != nil {
			return nil, err
		}
		h := msk.JSON((&bookkeeper{ledger: books.Ledger, events: s.events, simulate: simulate,
			simulation: newSimulation()}).book)
		if books.Within != nil {
			h = books.Within(h)
		}
		return h, nil
	}
}

// settings is the configuration of the books.
type settings struct {
	table  string
	audit  string // the audit's table, or ""
	atomic bool
	events Publishing
}

// ReadTable returns the name of the balances' table.
func ReadTable(v *app.Vars) string { return v.Table("IDEMSK_LEDGER_TABLE", "idemsk-ledger") }

func readSettings(base *app.Base) settings {
	s := settings{
		table: ReadTable(base.Vars),
		atomic: base.Vars.OneOf("IDEMSK_LEDGER", "atomic", "plain") == "atomic" &&
			base.Config.Store != app.StoreNone,
	}
	audit := base.Vars.Table("IDEMSK_AUDIT_TABLE", "idemsk-audit")
	if base.Vars.OneOf("IDEMSK_AUDIT", "off", "on") == "on" {
		s.audit = audit
	}
	s.events = readPublishing(base, s.atomic)
	return s
}

func (s *settings) open(ctx context.Context, base *app.Base, servers Servers) (Books, error) {
	switch base.Config.Store {
	case app.StoreMemory:
		if s.atomic {
			return Books{Ledger: memoryAtomicLedger{newMemoryLedger()}}, nil
		}
		return Books{Ledger: newMemoryLedger()}, nil
	case app.StorePostgres, app.StoreRedis:
		return servers[base.Config.Store](ctx, base, s.table, s.events)
	}
	if s.atomic {
		within, err := s.events.inDynamoDB(base)
		return Books{atomicLedger{table: s.table, audit: s.audit}, within}, err
	}
	awsCfg, err := base.AWS(ctx)
	if err != nil {
		return Books{}, err
	}
	ledger := newDynamoLedger(awsCfg, s.table)
	if s.audit != "" {
		return Books{Ledger: &auditLedger{dynamoLedger: ledger, audit: s.audit}}, nil
	}
	return Books{Ledger: ledger}, nil
}

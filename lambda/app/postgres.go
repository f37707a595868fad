//go:build postgres

package app

import (
	"cmp"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
)

// readPostgres reads what IDEMSK_STORE=postgres needs. The URL holds a password: it is not repeated.
func readPostgres(v *Vars, c *Config) {
	if c.StoreURL == "" {
		v.FailSecret("IDEMSK_STORE_URL", "postgres://user:password@host:port/database")
	}
	if !pgstore.ValidTable(c.Table) {
		v.Fail("IDEMSK_TABLE", c.Table, "for PostgreSQL a table's name, or its schema and name")
	}
}

// openPostgres returns a store in lease mode. It does not connect.
func openPostgres(b *Base) (idem.Store, error) {
	pool, err := pgstore.NewPool(b.Config.StoreURL)
	if err != nil {
		return nil, err
	}
	b.close = pool.Close
	return pgstore.New(pool, pgstore.Config{Table: b.Config.Table, MaxClockSkew: cmp.Or(b.Config.MaxClockSkew, -1)})
}

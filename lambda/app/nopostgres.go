//go:build !postgres

package app

import (
	"errors"

	"github.com/idemsk/idemsk/idem"
)

// A function carries the stores that it was built with, and no other: it is small, and starts fast.
const withoutPostgres = "a store that this build has (dynamodb, memory, none); build with -tags postgres for PostgreSQL"

func readPostgres(v *Vars, c *Config) { v.Fail("IDEMSK_STORE", c.Store, withoutPostgres) }

func openPostgres(*Base) (idem.Store, error) {
	return nil, errors.New("IDEMSK_STORE: want " + withoutPostgres)
}

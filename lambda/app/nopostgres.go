//go:build !postgres

package app

import (
	"context"
	"errors"

	"github.com/idemsk/idemsk/idem/store"
)

// A function carries the stores that it was built with, and no other: it is small, and starts fast.
const withoutPostgres = "a store that this build has; build with -tags postgres for PostgreSQL"

type postgres struct{}

func readPostgres(v *Vars, c *Config) { v.Fail("IDEMSK_STORE", c.Store, withoutPostgres) }

func (b *Base) openPostgres(context.Context) (store.Store, error) {
	return nil, errors.New("IDEMSK_STORE: want " + withoutPostgres)
}

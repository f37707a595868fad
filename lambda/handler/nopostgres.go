//go:build !postgres

package main

import (
	"github.com/idemsk/idemsk/lambda/app"
	"github.com/idemsk/idemsk/lambda/msk"
)

// bookInPostgres is not reached: the configuration refuses a store that is not in the build.
func bookInPostgres(*app.Base, string, publishing, func(Ledger) msk.Handler) (msk.Handler, error) {
	return nil, nil //nolint:nilnil // see above
}

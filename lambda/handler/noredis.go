//go:build !redis

package main

import (
	"context"

	"github.com/idemsk/idemsk/lambda/app"
	"github.com/idemsk/idemsk/lambda/msk"
)

// bookInRedis is not reached: the configuration refuses a store that is not in the build.
func bookInRedis(context.Context, *app.Base, string, func(Ledger) msk.Handler) (msk.Handler, error) {
	return nil, nil //nolint:nilnil // see above
}

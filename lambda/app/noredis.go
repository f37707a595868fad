//go:build !redis

package app

import (
	"context"
	"errors"

	"github.com/idemsk/idemsk/idem/store"
)

const withoutRedis = "a store that this build has; build with -tags redis for Redis and Valkey"

type redisState struct{}

func readRedis(v *Vars, c *Config) { v.Fail("IDEMSK_STORE", c.Store, withoutRedis) }

func (b *Base) openRedis(context.Context) (store.Store, error) {
	return nil, errors.New("IDEMSK_STORE: want " + withoutRedis)
}

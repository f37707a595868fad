//go:build redis

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/redisledger"
	"github.com/idemsk/idemsk/lambda/app"
	"github.com/idemsk/idemsk/lambda/msk"
)

// redisLedger is a ledger beside the keys. A booking does not commit with its key's completion: a process that dies between
// them books again.
type redisLedger struct {
	client redis.UniversalClient
	name   redisledger.Ledger
}

func bookInRedis(ctx context.Context, base *app.Base, name string, book func(Ledger) msk.Handler) (msk.Handler, error) {
	client, err := base.Redis(ctx, redisledger.SendOnce)
	if err != nil {
		return nil, err
	}
	return book(redisLedger{client, redisledger.Ledger(name)}), nil
}

// Add implements Ledger.
func (l redisLedger) Add(ctx context.Context, account, currency string, amount int64) (int64, error) {
	balance, err := l.name.Add(ctx, l.client, accountID(account, currency), amount)
	switch {
	case errors.Is(err, redisledger.ErrRefused):
		return 0, idem.Permanent(fmt.Errorf("on Redis: %w", err))
	case err != nil: // the ledger's fault: a payment is not given up for that
		return 0, idem.Unavailable(fmt.Errorf("on Redis: %w", err))
	}
	return balance, nil
}

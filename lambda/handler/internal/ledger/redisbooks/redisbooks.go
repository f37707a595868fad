// Package redisbooks keeps the example's books in Redis or Valkey, on the server of the keys.
package redisbooks

import (
	"context"
	"errors"
	"fmt"

	goredis "github.com/redis/go-redis/v9"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/app/redis"
	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/demo/redisledger"
	"github.com/idemsk/idemsk/lambda/handler/internal/ledger"
)

// redisLedger is a ledger on the store's server. A booking does not commit with its key's completion: if the
// process dies between them, the payment is booked again.
type redisLedger struct {
	client goredis.UniversalClient
	name   redisledger.Ledger
}

// Open is a ledger.Open.
func Open(ctx context.Context, base *app.Base, name string, _ ledger.Publishing) (ledger.Books, error) {
	client, err := redis.Client(ctx, base, redisledger.SendOnce)
	return ledger.Books{Ledger: redisLedger{client, redisledger.Ledger(name)}}, err
}

// Add implements ledger.Ledger.
func (l redisLedger) Add(ctx context.Context, account, currency string, amount int64) (int64, error) {
	balance, err := l.name.Add(ctx, l.client, ledger.AccountID(account, currency), amount)
	switch {
	case errors.Is(err, redisledger.ErrRefused):
		return 0, idem.Permanent(fmt.Errorf("on Redis: %w", err))
	case err != nil: // the ledger failed, so the payment is retried
		return 0, idem.Unavailable(fmt.Errorf("on Redis: %w", err))
	}
	return balance, nil
}

// Package redisledger keeps the balances of the example function in Redis, a hash for each account.
package redisledger

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// fieldBalance is the field of an account's hash that has the balance, in minor units. The field bookings has how often something
// was added.
const fieldBalance = "balance"

// book adds to both fields, or to none, which a transaction alone would not do: it ends at a balance that would overflow.
const book = `redis.call('HINCRBY', KEYS[1], 'balance', ARGV[1])
return redis.call('HINCRBY', KEYS[1], 'bookings', 1)`

// pageSize is how many names the server looks at for a page of Balances.
const pageSize = 1000

// Ledger is what the names of the accounts' hashes begin with.
type Ledger string

func (l Ledger) name(account string) string { return string(l) + ":" + account }

// SendOnce is for the client that books: to send an addition again because its answer was lost would book twice.
func SendOnce(o *redis.UniversalOptions) { o.MaxRetries = -1 }

// ErrRefused says that the server refuses a booking for what is in it, and would refuse it again: the balance would not fit.
var ErrRefused = errors.New("the booking is refused, and will be again")

// overflow is what the server says of a balance that would not fit 64 bits.
const overflow = "would overflow"

// Add adds an amount in minor units to a balance, and returns the new one. An error that the booking alone is to blame for is
// ErrRefused.
func (l Ledger) Add(ctx context.Context, client redis.UniversalClient, account string, amount int64) (int64, error) {
	var balance *redis.IntCmd
	// In a transaction, which a cluster's client does not send again when the answer is lost. Lua would round the balance.
	_, err := client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Eval(ctx, book, []string{l.name(account)}, amount)
		balance = p.HIncrBy(ctx, l.name(account), fieldBalance, 0)
		return nil
	})
	var said redis.Error
	if errors.As(err, &said) && strings.Contains(said.Error(), overflow) {
		err = fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if err != nil {
		return 0, fmt.Errorf("booking in the ledger %s: %w", string(l), err)
	}
	return balance.Val(), nil
}

// Balances returns all balances by account. The client is one of a single server, not of a cluster.
func (l Ledger) Balances(ctx context.Context, client redis.UniversalClient) (map[string]int64, error) {
	balances := make(map[string]int64)
	accounts := client.ScanType(ctx, 0, l.name("*"), pageSize, "hash").Iterator()
	for accounts.Next(ctx) {
		balance, err := client.HGet(ctx, accounts.Val(), fieldBalance).Int64()
		if err != nil {
			return nil, fmt.Errorf("reading the ledger %s: %s: %w", string(l), accounts.Val(), err)
		}
		balances[strings.TrimPrefix(accounts.Val(), l.name(""))] = balance
	}
	if err := accounts.Err(); err != nil {
		return nil, fmt.Errorf("reading the ledger %s: %w", string(l), err)
	}
	return balances, nil
}

// Drop removes all accounts.
func (l Ledger) Drop(ctx context.Context, client redis.UniversalClient) error {
	balances, err := l.Balances(ctx, client)
	for account := range balances {
		if err == nil {
			err = client.Del(ctx, l.name(account)).Err()
		}
	}
	if err != nil {
		return fmt.Errorf("removing the ledger %s: %w", string(l), err)
	}
	return nil
}

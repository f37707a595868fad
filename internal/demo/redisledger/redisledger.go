// Package redisledger keeps the balances of the example function in Redis, a hash for each account.
package redisledger

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// fieldBalance is the field of an account's hash that holds the balance, in minor units. The field bookings
// holds the number of additions.
const fieldBalance = "balance"

// book adds to both fields or to neither. A transaction alone would add to one of them if the balance
// overflows.
const book = `redis.call('HINCRBY', KEYS[1], 'balance', ARGV[1])
return redis.call('HINCRBY', KEYS[1], 'bookings', 1)`

// pageSize is the number of names that the server scans for a page of Balances.
const pageSize = 1000

// Ledger is the prefix of the names of the accounts' hashes.
type Ledger string

func (l Ledger) name(account string) string { return string(l) + ":" + account }

// SendOnce is an option of the client that books: a retried addition would book twice.
func SendOnce(o *redis.UniversalOptions) { o.MaxRetries = -1 }

// ErrRefused means that the server refuses a booking because of its values, and would refuse a retry: the
// balance would overflow.
var ErrRefused = errors.New("the booking is refused, and a retry would be refused too")

// overflow is the server's error for a balance that would overflow 64 bits.
const overflow = "would overflow"

// Add adds an amount in minor units to a balance, and returns the new balance. An error that the booking's
// values cause is ErrRefused.
func (l Ledger) Add(ctx context.Context, client redis.UniversalClient, account string, amount int64) (int64,
	error) {
	var balance *redis.IntCmd
	// A cluster's client does not retry a transaction when the reply is lost. A Lua script would round the
	// balance.
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

// Balances returns all balances by account. The client must be that of a single server, not of a cluster.
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

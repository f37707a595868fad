package ledger

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/memstore"
)

// atomicLedger is a ledger in a DynamoDB table whose bookings commit with the completion of their payment, so
// that a payment is booked once even if the process dies. Add returns no balance, because a transaction does
// not return one.
type atomicLedger struct {
	table string
	audit string // the audit's table, or ""
}

// Add implements Ledger. It enlists the booking, and an item of the audit table if there is one.
func (l atomicLedger) Add(ctx context.Context, account, currency string, amount int64) (int64, error) {
	tx, err := dynamostore.TxFrom(ctx)
	if err != nil {
		return 0, fmt.Errorf("the ledger %s: %w", l.table, err)
	}
	id := AccountID(account, currency)
	writes := []dynamostore.Write{{Update: addition(l.table, id, amount), OrElse: errOverflow(l.table)}}
	if l.audit != "" {
		entry := &types.Put{TableName: &l.audit, Item: auditItem(ctx, id, amount)}
		writes = append(writes, dynamostore.Write{Put: entry, PutKey: []string{attrExecution}})
	}
	return 0, tx.Enlist(writes...)
}

// memoryAtomicLedger is atomicLedger for runs without AWS.
type memoryAtomicLedger struct{ *memoryLedger }

// Add implements Ledger.
func (l memoryAtomicLedger) Add(ctx context.Context, account, currency string, amount int64) (int64, error) {
	tx, err := memstore.TxFrom(ctx)
	if err != nil {
		return 0, fmt.Errorf("the ledger: %w", err)
	}
	tx.Do(func() { l.book(AccountID(account, currency), amount) })
	return 0, nil
}

package dynamostore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// The limits of a transaction and of an item.
// https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html
const (
	MaxTxItems  = 100     // including the item of the key
	MaxTxBytes  = 4 << 20 // of all items
	MaxItemSize = 400 << 10
)

// Tx is the effect of a handler: writes that commit in one transaction (TransactWriteItems) with the
// completion of the handler's key. It is safe for concurrent use. It accepts writes until the handler has
// returned.
//
// Each write, and the completion, costs twice the write units of a plain write.
type Tx struct {
	own  string // the table of the keys; handlers must not write to it
	name string // unique

	mu     sync.Mutex
	writes []write
	size   int
	err    error // the errors of Enlist
	sealed bool
	at     time.Time // time of the first settlement: DynamoDB requires that a retry is identical
}

// Write is a write to one item. Exactly one of Put, Update, Delete and Check is set.
type Write struct {
	Put *types.Put
	// PutKey are the names of the key attributes of Put's table. Enlist uses them to refuse a second write to
	// the same item.
	PutKey []string
	Update *types.Update
	Delete *types.Delete
	Check  *types.ConditionCheck

	// OrElse is the handler's error if the condition of the write fails. With nil it is a *ConditionError,
	// and the task is retried. An error marked by idem.Permanent sends the task to the dead letters at once.
	OrElse error
}

// ConditionError means that the condition of a write failed. Nothing was committed.
type ConditionError struct {
	Table string
	Key   string // the key of the item, formatted for messages
	// Item is the item for which the condition failed, if the write set ReturnValuesOnConditionCheckFailure.
	Item map[string]types.AttributeValue
	// OrElse is the OrElse of the Write.
	OrElse error
}

func (e *ConditionError) Error() string {
	text := fmt.Sprintf("dynamostore: the condition on item %s of table %s does not hold", e.Key, e.Table)
	if e.OrElse != nil {
		return e.OrElse.Error() + " (" + text + ")"
	}
	return text
}

func (e *ConditionError) Unwrap() error { return e.OrElse }

// ErrInvalidWrite means that a write can't be part of a transaction.
var ErrInvalidWrite = errors.New("dynamostore: the write can't be part of the transaction")

var (
	errNoTx = errors.New("dynamostore: there is no transaction: the handler's task was not claimed through a dynamostore.Store, or runs unprotected")
	errOver = errors.New("dynamostore: the handler has returned: nothing can be enlisted any more")
)

// TxFrom returns the transaction of the task from a handler's context. If there is none, because the engine
// failed open or uses another store, it returns an error marked by idem.Unavailable.
func TxFrom(ctx context.Context) (*Tx, error) {
	e, _ := store.EffectFrom(ctx)
	if tx, ok := e.(*Tx); ok {
		return tx, nil
	}
	return nil, idem.Unavailable(errNoTx)
}

// Enlist adds writes to the transaction. It sends no request. It returns ErrInvalidWrite (wrapped) if a write
// can't be part of the transaction. This error also becomes the handler's error, even if the handler ignores
// it, so that a transaction is never committed in part.
func (tx *Tx) Enlist(writes ...Write) error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.sealed {
		return errOver
	}
	for i := range writes {
		if err := tx.enlist(&writes[i]); err != nil {
			tx.err = errors.Join(tx.err, err)
			return err
		}
	}
	return nil
}

func (tx *Tx) enlist(w *Write) error {
	one, err := prepare(w)
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: write %d, on item %s of table %s: %s", ErrInvalidWrite, len(tx.writes)+1,
			one.key, one.table, fmt.Sprintf(format, args...))
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: write %d: %w", ErrInvalidWrite, len(tx.writes)+1, err)
	case one.table == tx.own:
		return wrong("that table holds the idempotency keys: write to one of your own")
	case len(tx.writes)+1 >= MaxTxItems:
		return wrong("a transaction has at most %d items, one of which is the key's", MaxTxItems)
	case w.Put != nil && one.size > MaxItemSize:
		return wrong("it has %d bytes: an item has at most %d", one.size, MaxItemSize)
	case tx.size+one.size > MaxTxBytes-MaxItemSize:
		return wrong("with %d bytes it makes the transaction too large: %d bytes are left of %d, of which %d are the key's",
			one.size, MaxTxBytes-MaxItemSize-tx.size, MaxTxBytes, MaxItemSize)
	case slices.ContainsFunc(tx.writes, func(other write) bool { return other.id() == one.id() }):
		return wrong("it is enlisted already: a transaction writes an item once; make it one update")
	}
	tx.writes = append(tx.writes, one)
	tx.size += one.size
	return nil
}

// Seal implements store.Effect.
func (tx *Tx) Seal() (enlisted bool, err error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.sealed = true
	return len(tx.writes) > 0, tx.err
}

// Discard implements store.Effect: nothing was sent.
func (tx *Tx) Discard() {}

// NewEffect implements store.Transactor.
func (s *Store) NewEffect() store.Effect { return &Tx{own: s.table, name: rand.Text()} }

// settledAt returns the time of the first settlement of this transaction.
func (tx *Tx) settledAt(now time.Time) time.Time {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.at.IsZero() {
		tx.at = now
	}
	return tx.at
}

// write is a prepared Write.
type write struct {
	item   types.TransactWriteItem
	table  string
	key    string // formatted; equal for equal keys
	size   int    // in bytes, with the values of expressions, as far as known: an update may make its item larger
	orElse error
}

// id identifies the item.
func (w *write) id() string { return w.table + " " + w.key }

func prepare(w *Write) (write, error) {
	one := write{item: types.TransactWriteItem{Put: w.Put, Update: w.Update, Delete: w.Delete,
		ConditionCheck: w.Check}, orElse: w.OrElse}
	var table, expression *string
	var key, values map[string]types.AttributeValue
	ops := 0
	if p := w.Put; p != nil {
		ops++
		table, key, values = p.TableName, make(map[string]types.AttributeValue, len(w.PutKey)), p.ExpressionAttributeValues
		for _, name := range w.PutKey {
			if p.Item[name] != nil {
				key[name] = p.Item[name]
			}
		}
		if len(w.PutKey) == 0 || len(key) < len(w.PutKey) {
			return one, fmt.Errorf("PutKey is %q: want the names of the table's key attributes, which the item must have", w.PutKey)
		}
		if err := checkValues("Item", p.Item); err != nil {
			return one, err
		}
		one.size = sizeOf(p.Item)
	}
	if u := w.Update; u != nil {
		ops++
		table, key, values, expression = u.TableName, u.Key, u.ExpressionAttributeValues, u.UpdateExpression
	}
	if d := w.Delete; d != nil {
		ops++
		table, key, values = d.TableName, d.Key, d.ExpressionAttributeValues
	}
	if c := w.Check; c != nil {
		ops++
		table, key, values, expression = c.TableName, c.Key, c.ExpressionAttributeValues, c.ConditionExpression
	}
	switch {
	case ops != 1:
		return one, fmt.Errorf("it has %d operations: want exactly one of Put, Update, Delete and Check", ops)
	case aws.ToString(table) == "":
		return one, errors.New("its TableName is missing")
	case len(key) == 0:
		return one, fmt.Errorf("its Key is missing (table %s)", *table)
	case w.Update != nil && aws.ToString(expression) == "":
		return one, fmt.Errorf("its UpdateExpression is missing (table %s)", *table)
	case w.Check != nil && aws.ToString(expression) == "":
		return one, fmt.Errorf("its ConditionExpression is missing (table %s)", *table)
	}
	if err := errors.Join(checkValues("Key", key), checkValues("ExpressionAttributeValues", values)); err != nil {
		return one, err
	}
	if one.table = *table; w.Put == nil {
		one.size = sizeOf(key)
	}
	one.size += sizeOf(values)
	var err error
	one.key, err = keyText(key)
	return one, err
}

// checkValues returns an error for a value that can't be sent.
func checkValues(where string, values map[string]types.AttributeValue) error {
	for name, v := range values {
		if err := checkValue(where+"."+name, v); err != nil {
			return err
		}
	}
	return nil
}

func checkValue(where string, v types.AttributeValue) error {
	if r := reflect.ValueOf(v); !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil() {
		return fmt.Errorf("%s is nil", where)
	}
	switch v := v.(type) {
	case *types.AttributeValueMemberS, *types.AttributeValueMemberN, *types.AttributeValueMemberB,
		*types.AttributeValueMemberSS, *types.AttributeValueMemberNS, *types.AttributeValueMemberBS,
		*types.AttributeValueMemberBOOL, *types.AttributeValueMemberNULL:
		return nil
	case *types.AttributeValueMemberL:
		for i, element := range v.Value {
			if err := checkValue(where+"["+strconv.Itoa(i)+"]", element); err != nil {
				return err
			}
		}
		return nil
	case *types.AttributeValueMemberM:
		return checkValues(where, v.Value)
	}
	return fmt.Errorf("%s is a %T: want an attribute value of the SDK", where, v)
}

// keyText formats a key for messages. Equal keys have equal text.
func keyText(key map[string]types.AttributeValue) (string, error) {
	var b strings.Builder
	b.WriteByte('{')
	for i, name := range slices.Sorted(maps.Keys(key)) {
		if i > 0 {
			b.WriteString(", ")
		}
		switch v := key[name].(type) {
		case *types.AttributeValueMemberS:
			fmt.Fprintf(&b, "%s: %q", name, v.Value)
		case *types.AttributeValueMemberN:
			fmt.Fprintf(&b, "%s: %s", name, v.Value)
		case *types.AttributeValueMemberB:
			fmt.Fprintf(&b, "%s: 0x%x", name, v.Value)
		default:
			return "", fmt.Errorf("its key attribute %s is a %T: want a string, a number or bytes", name, v)
		}
	}
	b.WriteByte('}')
	return b.String(), nil
}

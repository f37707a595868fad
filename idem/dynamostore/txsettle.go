package dynamostore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/internal/chunks"
	"github.com/idemsk/idemsk/idem/store"
)

// completion is a settlement in a transaction.
type completion struct {
	set *store.Settlement
	err *error
	tx  *Tx
	at  time.Time
	why cause // of the last cancellation
}

// settleTransactions settles the settlements that have an effect, and returns the others.
func (s *Store) settleTransactions(ctx context.Context, ss []store.Settlement,
	errs []error) (others []store.Settlement, which []int) {
	var completions []completion
	now := s.clock.Now()
	for i := range ss {
		set := &ss[i]
		if set.Effect == nil {
			others, which = append(others, *set), append(which, i)
			continue
		}
		tx, ok := set.Effect.(*Tx)
		if !ok {
			errs[i] = &store.RejectedError{Err: fmt.Errorf(
				"dynamostore: the effect is a %T: want the store's own", set.Effect)}
			continue
		}
		completions = append(completions, completion{set: set, err: &errs[i], tx: tx, at: tx.settledAt(now)})
	}
	groups, disjoint := group(completions)
	if disjoint {
		chunks.Each(len(groups), maxRequests, func(i int) { s.commit(ctx, groups[i]) })
	} else { // concurrent transactions on the same item would conflict
		for _, g := range groups {
			s.commit(ctx, g)
		}
	}
	return others, which
}

// group distributes completions over transactions. A transaction writes no item twice, keeps the limits of
// DynamoDB and, if it has several completions, the size limit of a batch request. disjoint reports that no
// two transactions write the same item.
func group(completions []completion) (groups [][]completion, disjoint bool) {
	type transaction struct {
		items, size int
		ids         map[string]struct{}
	}
	var txs []transaction
	disjoint = true
	for _, c := range completions {
		items, size := c.extent()
		fits := slices.IndexFunc(txs, func(t transaction) bool {
			apart := !slices.ContainsFunc(c.tx.writes,
				func(w write) bool { _, there := t.ids[w.id()]; return there })
			disjoint = disjoint && apart
			return apart && len(t.ids) > 0 && t.items+items <= MaxTxItems && t.size+size <= chunks.MaxBytes
		})
		if fits < 0 {
			fits = len(txs)
			txs, groups = append(txs, transaction{ids: make(map[string]struct{})}), append(groups, nil)
		}
		t := &txs[fits]
		t.items, t.size = t.items+items, t.size+size
		groups[fits] = append(groups[fits], c)
		for _, w := range c.tx.writes {
			t.ids[w.id()] = struct{}{}
		}
	}
	return groups, disjoint
}

// extent returns the number of items that a completion writes and their maximum size together.
func (c *completion) extent() (items, size int) {
	size = MaxItemSize
	if c.set.Failure == nil {
		size = ownSize + len(c.set.Key) + len(c.set.Result)
	}
	return len(c.tx.writes) + 1, size + c.tx.size
}

// ownSize is the maximum size of a COMPLETED item without its key and result. It includes a source of up to
// 300 bytes and attributes that existed before.
const ownSize = 4 << 10

// own returns the write of the completion's own key.
func (s *Store) own(c *completion) types.TransactWriteItem {
	e := settleChange(c.set, c.at).expression()
	return types.TransactWriteItem{Update: &types.Update{
		TableName: &s.table, Key: keyOf(c.set.Key), ConditionExpression: &e.condition,
		UpdateExpression:         &e.update,
		ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}}
}

// commit commits completions in one transaction. What refuses it because of one completion says nothing about the
// others: refused completions leave the transaction, and those whose items have no conflict with another transaction
// and are not throttled do not wait for the others. An error that does not name the completion at fault halves the
// transaction. It is also retried after a conflict.
func (s *Store) commit(ctx context.Context, group []completion) {
	for attempt := 0; len(group) > 0; {
		err := s.transact(ctx, group)
		if err == nil {
			return
		}
		var canceled *types.TransactionCanceledException
		switch {
		case errors.As(err, &canceled):
			others, blamed := s.answer(group, canceled.CancellationReasons)
			if len(others)+len(blamed) < len(group) || len(others) > 0 && len(blamed) > 0 {
				s.commit(ctx, others)
				if group = blamed; len(group) == 0 {
					return
				}
			}
		case len(group) > 1 && (refusesRequest(err) || isMismatch(err)):
			half := len(group) / 2 //nolint:mnd // half
			s.commit(ctx, group[:half])
			s.commit(ctx, group[half:])
			return
		case refusesRequest(err):
			*group[0].err = &store.RejectedError{Err: s.blame(group, err)}
			return
		case causeOf(err) != contention:
			s.fail(group, err)
			return
		}
		if attempt++; attempt >= MaxAttempts || !pause(ctx, attempt) {
			s.fail(group, err)
			return
		}
	}
}

// transact sends a transaction.
func (s *Store) transact(ctx context.Context, group []completion) error {
	in := &dynamodb.TransactWriteItemsInput{ClientRequestToken: tokenOf(group)}
	for i := range group {
		in.TransactItems = append(in.TransactItems, s.own(&group[i]))
		for _, w := range group[i].tx.writes {
			in.TransactItems = append(in.TransactItems, w.item)
		}
	}
	_, err := s.client.TransactWriteItems(ctx, in)
	return err
}

// tokenOf returns the client request token. It makes a transaction idempotent for ten minutes in its account
// and region, so that a retry after a lost reply succeeds. After ten minutes the conditions of the
// transaction decide.
func tokenOf(group []completion) *string {
	h := sha256.New()
	for _, c := range group {
		h.Write([]byte(c.tx.name))
	}
	const longest = 36
	return aws.String(hex.EncodeToString(h.Sum(nil))[:longest])
}

// The codes of cancellation reasons.
// https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html
const (
	reasonCondition  = "ConditionalCheckFailed"
	reasonCollection = "ItemCollectionSizeLimitExceeded"
	reasonValidation = "ValidationError"
)

// answer settles the completions that a cancellation refuses, by the reasons of their items. It returns those that
// caused it by contention or overload, and the others.
func (s *Store) answer(group []completion, reasons []types.CancellationReason) (others, blamed []completion) {
	for i := range group {
		c := &group[i]
		items, _ := c.extent()
		if len(reasons) < items { // the reasons are incomplete: no completion can be answered
			return nil, group
		}
		c.why = causeOfCancellation(reasons)
		err, final := s.verdict(c, reasons[:items])
		switch {
		case final:
			*c.err = err
		case slices.ContainsFunc(reasons[:items], isReason):
			blamed = append(blamed, *c)
		default:
			others = append(others, *c)
		}
		reasons = reasons[items:]
	}
	return others, blamed
}

// isReason reports whether an item caused a cancellation.
func isReason(r types.CancellationReason) bool {
	code := aws.ToString(r.Code)
	return code != "" && code != "None"
}

// verdict returns the answer to a completion. It is not final if other completions, contention or overload
// caused the cancellation.
func (s *Store) verdict(c *completion, reasons []types.CancellationReason) (err error, final bool) {
	switch code := aws.ToString(reasons[0].Code); code {
	case reasonCondition:
		return s.refused(c, reasons[0].Item), true
	case reasonValidation:
		return s.explainTx([]completion{*c}, fmt.Errorf("the item of the key: %s: %s", code,
			aws.ToString(reasons[0].Message))), true
	}
	for i, w := range c.tx.writes {
		reason := &reasons[i+1]
		switch code := aws.ToString(reason.Code); code {
		case reasonCondition:
			return &store.RejectedError{Err: &ConditionError{Table: w.table, Key: w.key, Item: reason.Item,
				OrElse: w.orElse}}, true
		case reasonCollection, reasonValidation:
			err := fmt.Errorf("dynamostore: the write on item %s of table %s: %s: %s", w.key, w.table, code,
				aws.ToString(reason.Message))
			return &store.RejectedError{Err: err}, true
		}
	}
	return nil, false
}

// refused returns the answer to a completion for which the condition on its own key failed.
func (s *Store) refused(c *completion, item map[string]types.AttributeValue) error {
	var seen *store.Entry
	if len(item) > 0 {
		entry, err := decode(item)
		if err != nil {
			return s.explain(c.set.Op.String(), c.set.Key, err)
		}
		seen = &entry
	}
	return s.refusal(c.set, seen)
}

// fail answers the completions of a transaction after its last attempt.
func (s *Store) fail(group []completion, err error) {
	var canceled *types.TransactionCanceledException
	for i := range group {
		why := causeOf(err)
		if errors.As(err, &canceled) {
			why = group[i].why
		}
		*group[i].err = s.explainTx(group[i:i+1], classified(err, why))
	}
}

// causeOfCancellation returns the cause for a completion whose own conditions hold, by the reasons of its
// items. Only the reason of the key's item can show that the store is overloaded.
func causeOfCancellation(reasons []types.CancellationReason) cause {
	if causeOfCode(aws.ToString(reasons[0].Code)) == overload {
		return overload
	}
	return contention
}

// explainTx adds the key, the tables and a remedy to a transaction's error.
func (s *Store) explainTx(group []completion, err error) error {
	tables := []string{s.table}
	for i := range group {
		for _, w := range group[i].tx.writes {
			if !slices.Contains(tables, w.table) {
				tables = append(tables, w.table)
			}
		}
	}
	return fmt.Errorf("dynamostore: complete %q with its effect, in tables %q: %w%s", group[0].set.Key,
		tables, err, txHint(err))
}

func txHint(err error) string {
	var api smithy.APIError
	if isUnsupported(err) || !errors.As(err, &api) {
		return hint(err)
	}
	switch api.ErrorCode() {
	case codeNotFound:
		return " (one of the tables does not exist in this account and region, or not yet)"
	case codeDenied:
		return " (the role needs dynamodb:PutItem, UpdateItem, DeleteItem and ConditionCheckItem, as the enlisted writes require, on each of the tables)"
	case codeInvalid: // of an enlisted write, which its handler knows
		return ""
	}
	return hint(err)
}

// refusesRequest reports whether a transaction was refused because of its contents, a missing table or a missing
// permission, by DynamoDB or by its client, which sent nothing then.
func refusesRequest(err error) bool {
	var api smithy.APIError
	var incomplete smithy.InvalidParamsError
	var unsent *smithy.SerializationError
	if !errors.As(err, &api) {
		return errors.As(err, &incomplete) || errors.As(err, &unsent)
	}
	switch api.ErrorCode() {
	case codeInvalid, codeNotFound, codeDenied:
		return true
	}
	return false
}

// isMismatch reports whether DynamoDB remembers another transaction with the same token: a write was changed after it
// was enlisted.
func isMismatch(err error) bool {
	var mismatch *types.IdempotentParameterMismatchException
	return errors.As(err, &mismatch)
}

// blame returns the error of a refused transaction: the handler's error, or idem.Unavailable if a table or a
// permission is missing.
func (s *Store) blame(group []completion, err error) error {
	var api smithy.APIError
	if errors.As(err, &api) && (api.ErrorCode() == codeNotFound || api.ErrorCode() == codeDenied) {
		return idem.Unavailable(s.explainTx(group, err))
	}
	return s.explainTx(group, err)
}

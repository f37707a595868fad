package dynamostore

import (
	"context"
	"fmt"
	"iter"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem/store"
)

// Get implements store.Admin with one consistent read.
func (s *Store) Get(ctx context.Context, key string) (store.Entry, error) {
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.table, Key: keyOf(key),
		ConsistentRead: aws.Bool(true)})
	if err != nil {
		return store.Entry{}, s.explain("get", key, err)
	}
	if out.Item == nil {
		return store.Entry{}, fmt.Errorf("dynamostore: get from table %s: %w: %q", s.table, store.ErrNotFound,
			key)
	}
	entry, err := decode(out.Item)
	if err != nil {
		return store.Entry{}, s.explain("get", key, err)
	}
	return entry, nil
}

// List implements store.Admin with an eventually consistent scan. The scan reads the whole table, at 1 read
// unit for 8 KB, even if few entries match. It stops when the caller stops.
func (s *Store) List(ctx context.Context, q store.ListQuery) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		in := &dynamodb.ScanInput{TableName: &s.table}
		if q.Status != "" {
			in.FilterExpression = aws.String("#" + attrStatus + " = :status")
			in.ExpressionAttributeNames = map[string]string{"#" + attrStatus: attrStatus}
			in.ExpressionAttributeValues = map[string]types.AttributeValue{":status": &types.AttributeValueMemberS{Value: string(q.Status)}}
		}
		for {
			out, err := s.client.Scan(ctx, in)
			if err != nil {
				yield(store.Entry{}, fmt.Errorf("dynamostore: list table %s: %w%s", s.table, err, hint(err)))
				return
			}
			if !s.yieldPage(out.Items, q, yield) || out.LastEvaluatedKey == nil {
				return
			}
			in.ExclusiveStartKey = out.LastEvaluatedKey
		}
	}
}

func (s *Store) yieldPage(items []map[string]types.AttributeValue, q store.ListQuery,
	yield func(store.Entry, error) bool) bool {
	now := s.clock.Now()
	for _, av := range items {
		entry, err := decode(av)
		if err != nil {
			err = fmt.Errorf("dynamostore: list table %s: %w", s.table, err)
		} else if !q.Matches(&entry, now) {
			continue
		}
		if !yield(entry, err) {
			return false
		}
	}
	return true
}

// Delete implements store.Admin with one conditional delete.
func (s *Store) Delete(ctx context.Context, key string, token int64) error {
	var c change
	c.is(attrVersion, number(token))
	e := c.expression()
	_, err := s.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName: &s.table, Key: keyOf(key), ConditionExpression: &e.condition,
		ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if err == nil {
		return nil
	}
	seen, err := refusedBy(err)
	switch {
	case err != nil:
		return s.explain("delete", key, err)
	case seen == nil:
		return fmt.Errorf("dynamostore: delete from table %s: %w: %q", s.table, store.ErrNotFound, key)
	}
	return fmt.Errorf("dynamostore: delete: %w", &store.FencedError{Key: key, Token: token, Current: *seen})
}

// Package dynamostore stores idempotency keys in a DynamoDB table. It is the recommended store for
// production.
//
//	cfg, err := config.LoadDefaultConfig(ctx) // of aws-sdk-go-v2/config
//	keys, err := dynamostore.New(dynamostore.NewClient(cfg), dynamostore.Config{})
//	engine, err := idem.New(keys, idem.Config{})
//
// The table has the partition key AttrKey of type S, and TTL on AttrExpiry (CreateTable makes it). It must
// not be a global table with last-writer-wins replication, because two regions could win the same claim.
//
// # Cost
//
// A new key costs two requests: PutItem and UpdateItem. A duplicate costs one: a PutItem whose condition
// fails and whose error contains the item (ReturnValuesOnConditionCheckFailure). A steal or a re-claim costs
// one more UpdateItem. DynamoDB bills each request as a write of one item, by size, even if its condition
// fails.
//
// The store sends several claims or settlements as batches of 25 writes in one BatchExecuteStatement. This is
// not a transaction: each write has its own condition, its own outcome and the price of a single write. It
// reads up to 100 duplicates with one BatchGetItem.
//
// Only a settlement with an effect is a transaction.
package dynamostore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/internal/chunks"
	"github.com/idemsk/idemsk/idem/store"
)

// DefaultTable is the table's name if Config.Table is empty.
const DefaultTable = "idemsk"

// maxRequests is the maximum number of concurrent requests for one batch.
const maxRequests = 16

// Client is the part of *dynamodb.Client that the store uses. NewClient returns one whose timeouts fit an
// invocation.
type Client interface {
	PutItem(ctx context.Context, in *dynamodb.PutItemInput,
		optFns ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput,
		optFns ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	GetItem(ctx context.Context, in *dynamodb.GetItemInput,
		optFns ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput,
		optFns ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	BatchExecuteStatement(
		ctx context.Context, in *dynamodb.BatchExecuteStatementInput, optFns ...func(*dynamodb.Options),
	) (*dynamodb.BatchExecuteStatementOutput, error)
	BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput,
		optFns ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	TransactWriteItems(
		ctx context.Context, in *dynamodb.TransactWriteItemsInput, optFns ...func(*dynamodb.Options),
	) (*dynamodb.TransactWriteItemsOutput, error)
	Scan(ctx context.Context, in *dynamodb.ScanInput,
		optFns ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
}

// Config configures a Store. The zero value of a field means its default.
type Config struct {
	// Table is the table's name or ARN. Default: DefaultTable.
	Table string
	// MaxClockSkew is the maximum difference between the clocks of two machines. It delays the end of a lease
	// for other owners. Default: store.DefaultMaxClockSkew; -1 means 0.
	MaxClockSkew time.Duration
	// Unbatched sends each claim and each settlement in a request of its own, for endpoints that do not support
	// BatchExecuteStatement.
	Unbatched bool
	// Clock is the clock of the store. Default: time.Now.
	Clock store.Clock
}

func (c Config) withDefaults() Config {
	c.Table = cmp.Or(c.Table, DefaultTable)
	c.MaxClockSkew = cmp.Or(c.MaxClockSkew, store.DefaultMaxClockSkew)
	return c
}

// Store is a store in DynamoDB. It is safe for concurrent use.
type Store struct {
	client Client
	table  string
	skew   time.Duration
	batch  int // maximum number of elements in one request
	fewest int // minimum number of elements for a batch; a plain request returns more details
	clock  store.Clock

	readFirst atomic.Bool // see claimBatch
}

var (
	_ store.Store   = (*Store)(nil)
	_ store.Batcher = (*Store)(nil)
	_ store.Admin   = (*Store)(nil)
)

// tableName matches a table's name of 3 to 255 characters, or its ARN.
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/HowItWorks.NamingRulesDataTypes.html
var tableName = regexp.MustCompile(`^([a-zA-Z0-9_.-]{3,255}|arn:[a-z0-9-]+:dynamodb:[a-z0-9-]*:[0-9]*:table/[a-zA-Z0-9_.-]{3,255})$`)

// ValidTable reports whether name is a valid name or ARN of a DynamoDB table.
func ValidTable(name string) bool { return tableName.MatchString(name) }

// New returns a store on a table. It sends no request. If cfg is invalid, it returns idem.ErrInvalidConfig
// (wrapped) and names every invalid field.
func New(client Client, cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(client != nil, "the client is nil")
	bad(tableName.MatchString(cfg.Table),
		"Table is %q: want 3 to 255 letters, digits, '_', '.' or '-', or a table's ARN", cfg.Table)
	bad(cfg.MaxClockSkew >= -1, "MaxClockSkew is %v: want 0 or more, or -1 for none", cfg.MaxClockSkew)
	if len(errs) > 0 {
		return nil, fmt.Errorf("dynamostore: %w: %w", idem.ErrInvalidConfig, errors.Join(errs...))
	}
	cfg.MaxClockSkew = max(0, cfg.MaxClockSkew)
	s := &Store{client: client, table: cfg.Table, skew: cfg.MaxClockSkew, batch: 1,
		fewest: 2, clock: cfg.Clock}
	if !cfg.Unbatched && !strings.HasPrefix(cfg.Table, "arn:") {
		s.batch = MaxBatchSize
	}
	return s, nil
}

// BatchSize implements store.Batcher.
func (s *Store) BatchSize() int { return s.batch }

// Claim implements store.Store.
func (s *Store) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	results := make([]store.ClaimResult, len(reqs))
	if s.batch > 1 && len(reqs) >= s.fewest {
		s.claimBatch(ctx, reqs, results)
	} else {
		chunks.Each(len(reqs), maxRequests, func(i int) { results[i] = s.claim(ctx, &reqs[i]) })
	}
	return results
}

// Settle implements store.Store.
func (s *Store) Settle(ctx context.Context, ss []store.Settlement) []error {
	errs := make([]error, len(ss))
	if slices.ContainsFunc(ss, func(set store.Settlement) bool { return set.Effect != nil }) {
		others, which := s.settleTransactions(ctx, ss, errs)
		plain := make([]error, len(others))
		s.settlePlain(ctx, others, plain)
		for n, i := range which {
			errs[i] = plain[n]
		}
	} else {
		s.settlePlain(ctx, ss, errs)
	}
	for _, err := range errs {
		if err != nil {
			return errs
		}
	}
	return nil
}

// settlePlain sends the settlements that have no effect.
func (s *Store) settlePlain(ctx context.Context, ss []store.Settlement, errs []error) {
	if s.batch > 1 && len(ss) >= s.fewest {
		s.settleBatch(ctx, ss, errs)
		return
	}
	chunks.Each(len(ss), maxRequests, func(i int) { errs[i] = s.settle(ctx, &ss[i]) })
}

// maxRounds is the maximum number of tries of a claim whose key changes between the read and the write. In
// each lost round, another owner's write succeeded.
const maxRounds = 8

// claim puts a new item. If the item exists, the failed condition returns it, and claim applies the rules to
// it.
func (s *Store) claim(ctx context.Context, req *store.ClaimRequest) store.ClaimResult {
	var seen *store.Entry
	for range maxRounds {
		var err error
		if seen == nil {
			fresh := store.Fresh(req, s.clock.Now())
			if seen, err = s.put(ctx, &fresh); err == nil && seen == nil {
				return store.ClaimResult{State: store.Claimed, Entry: fresh}
			}
		} else {
			next := store.Take(req, seen, s.clock.Now())
			before := seen
			if seen, err = s.take(ctx, seen, &next); err == nil && seen == &next {
				return store.ClaimResult{State: store.Claimed, Entry: next, Stolen: store.Stolen(before)}
			}
		}
		if err != nil {
			return s.unclaimed(req, err)
		}
		if seen == nil {
			continue // the item was deleted meanwhile
		}
		if res, final := s.judge(req, seen); final {
			return res
		}
	}
	return s.underWrite()
}

// judge applies the rules to a claim and the existing entry. It returns the answer, or final=false if the
// claim takes the key.
func (s *Store) judge(req *store.ClaimRequest, seen *store.Entry) (res store.ClaimResult, final bool) {
	verdict, res := store.Judge(req, seen, s.clock.Now(), s.skew)
	if verdict == store.VerdictMismatch {
		res.Err = fmt.Errorf("dynamostore: %w: key %q, token %d, first claimed from %s",
			store.ErrFingerprintMismatch, req.Key, seen.Token, seen.Source)
	}
	return res, verdict != store.VerdictTake
}

// unclaimed returns the answer to a claim whose write failed.
func (s *Store) unclaimed(req *store.ClaimRequest, err error) store.ClaimResult {
	if causeOf(err) == contention {
		return s.underWrite()
	}
	return store.ClaimResult{Err: s.explain("claim", req.Key, err)}
}

// underWrite returns the answer to a claim on a key that is being written: its owner completes it, or another
// claim takes it.
func (s *Store) underWrite() store.ClaimResult {
	return store.ClaimResult{State: store.ClaimInFlight, ClaimableIn: s.skew}
}

// put writes a new item. If the item exists, put returns its entry.
func (s *Store) put(ctx context.Context, fresh *store.Entry) (seen *store.Entry, err error) {
	_, err = s.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName:                           &s.table,
		Item:                                encode(fresh),
		ConditionExpression:                 aws.String("attribute_not_exists(#" + AttrKey + ")"),
		ExpressionAttributeNames:            map[string]string{"#" + AttrKey: AttrKey},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	return refusedBy(err)
}

// take replaces seen by next and returns next. If the item has changed, it returns the current entry, or nil
// if the item was deleted.
func (s *Store) take(ctx context.Context, seen, next *store.Entry) (now *store.Entry, err error) {
	ok, now, err := s.update(ctx, seen.Key, takeChange(seen, next))
	if ok {
		return next, err
	}
	return now, err
}

func (s *Store) settle(ctx context.Context, set *store.Settlement) error {
	ok, seen, err := s.update(ctx, set.Key, settleChange(set, s.clock.Now()))
	switch {
	case err != nil:
		return s.explain(set.Op.String(), set.Key, err)
	case ok:
		return nil
	}
	return s.refusal(set, seen)
}

// refusal returns the error of a refused settlement, given the current entry, nil if there is none. It
// returns nil if this settlement was applied before.
func (s *Store) refusal(set *store.Settlement, seen *store.Entry) error {
	if seen != nil && store.OwnSettlement(set, seen) {
		return nil
	}
	return fmt.Errorf("dynamostore: %s: %w", set.Op,
		&store.FencedError{Key: set.Key, Token: set.Token, Current: valueOf(seen)})
}

// update sends a conditional update. If the condition fails, it returns the current entry, or nil if there is
// no item.
func (s *Store) update(ctx context.Context, key string, c *change) (ok bool, seen *store.Entry, err error) {
	e := c.expression()
	_, err = s.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                           &s.table,
		Key:                                 keyOf(key),
		ConditionExpression:                 &e.condition,
		UpdateExpression:                    &e.update,
		ExpressionAttributeNames:            e.names,
		ExpressionAttributeValues:           e.values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if err == nil {
		return true, nil, nil
	}
	seen, err = refusedBy(err)
	return false, seen, err
}

// refusedBy returns the entry for which a condition failed, or nil if there is no item. It returns any other
// error unchanged.
func refusedBy(err error) (*store.Entry, error) {
	var failed *types.ConditionalCheckFailedException
	switch {
	case err == nil:
		return nil, nil //nolint:nilnil // not refused
	case !errors.As(err, &failed):
		return nil, err
	case failed.Item == nil:
		return nil, nil //nolint:nilnil // refused because there is no item
	}
	entry, err := decode(failed.Item)
	return &entry, err
}

func keyOf(key string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{AttrKey: &types.AttributeValueMemberS{Value: key}}
}

func valueOf(entry *store.Entry) store.Entry {
	if entry == nil {
		return store.Entry{}
	}
	return *entry
}

// Table returns the name or ARN of the store's table.
func (s *Store) Table() string { return s.table }

// MaxClockSkew returns the configured maximum clock skew, with the default applied.
func (s *Store) MaxClockSkew() time.Duration { return s.skew }

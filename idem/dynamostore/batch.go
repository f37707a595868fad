package dynamostore

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/idemsk/idemsk/idem/internal/chunks"
	"github.com/idemsk/idemsk/idem/store"
)

// MaxBatchSize is the maximum number of statements in one request.
// https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchExecuteStatement.html
const MaxBatchSize = 25

// https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html
const maxKeys = 100

// open is an undecided claim.
type open struct {
	i    int          // index of the request
	seen *store.Entry // the entry found, nil if none is known

	next      store.Entry // the entry to write
	statement types.BatchStatementRequest
}

// claimBatch is claim for many keys. It inserts entries for absent keys. If a key exists, it applies the
// rules to the existing entry and takes the key if they allow it. It repeats this until each claim is
// decided.
//
// An insert also finds out whether the item exists, so a new key costs no read. Kafka redelivers whole
// batches: if most keys of the previous batch existed, claimBatch reads the next batch first and saves the
// refused writes.
func (s *Store) claimBatch(ctx context.Context, reqs []store.ClaimRequest, results []store.ClaimResult) {
	claims := make([]open, len(reqs))
	for i := range claims {
		claims[i].i = i
	}
	if s.readFirst.Load() {
		claims = s.read(ctx, reqs, claims, results)
	}
	for range maxRounds {
		if claims = s.decide(reqs, claims, results); len(claims) == 0 {
			break
		}
		claims = s.write(ctx, reqs, claims, results)
	}
	s.countExisting(reqs, results)
	for _, c := range claims {
		results[c.i] = s.underWrite()
	}
}

// countExisting decides whether the next batch is read first.
func (s *Store) countExisting(reqs []store.ClaimRequest, results []store.ClaimResult) {
	existing := 0
	for i := range results {
		if owner := results[i].Entry.Owner; owner != "" && owner != reqs[i].Owner {
			existing++
		}
	}
	s.readFirst.Store(2*existing > len(reqs))
}

// decide answers the claims that need no write and prepares the statements of the others.
func (s *Store) decide(reqs []store.ClaimRequest, claims []open, results []store.ClaimResult) []open {
	left := claims[:0]
	for _, c := range claims {
		req := &reqs[c.i]
		if c.seen != nil {
			if res, final := s.judge(req, c.seen); final {
				results[c.i] = res
				continue
			}
		}
		// after judge: a take-over is not written at a time at which the lease was not over
		s.prepare(&c, req, s.clock.Now())
		left = append(left, c)
	}
	return left
}

func (s *Store) prepare(c *open, req *store.ClaimRequest, now time.Time) {
	if c.seen != nil {
		c.next = store.Take(req, c.seen, now)
		c.statement = takeChange(c.seen, &c.next).statement(s.table, req.Key)
		return
	}
	c.next = store.Fresh(req, now)
	c.statement = insertStatement(s.table, &c.next)
}

// write sends the prepared statements. It returns the refused claims, each with the entry that refused it.
func (s *Store) write(ctx context.Context, reqs []store.ClaimRequest, claims []open,
	results []store.ClaimResult) []open {
	statements := make([]types.BatchStatementRequest, len(claims))
	for i := range claims {
		statements[i] = claims[i].statement
	}
	var refused, unseen []open
	for n, answer := range s.execute(ctx, statements) {
		i, before := claims[n].i, claims[n].seen
		seen, err := answer.entry()
		switch {
		case err != nil:
			results[i] = s.unclaimed(&reqs[i], err)
		case !answer.refused:
			results[i] = store.ClaimResult{State: store.Claimed, Entry: claims[n].next,
				Stolen: before != nil && store.Stolen(before)}
		case before == nil && seen == nil:
			unseen = append(unseen, open{i: i})
		default:
			refused = append(refused, open{i: i, seen: seen}) // nil if the item was deleted meanwhile
		}
	}
	return append(refused, s.read(ctx, reqs, unseen, results)...)
}

// settleBatch is settle for many keys.
func (s *Store) settleBatch(ctx context.Context, ss []store.Settlement, errs []error) {
	statements := make([]types.BatchStatementRequest, len(ss))
	now := s.clock.Now()
	for i := range ss {
		statements[i] = settleChange(&ss[i], now).statement(s.table, ss[i].Key)
	}
	for i, answer := range s.execute(ctx, statements) {
		seen, err := answer.entry()
		switch {
		case err != nil:
			errs[i] = s.explain(ss[i].Op.String(), ss[i].Key, err)
		case answer.refused:
			errs[i] = s.refusal(&ss[i], seen)
		}
	}
}

// answer is the result of a statement.
type answer struct {
	refused bool                            // the condition failed, or the item existed
	item    map[string]types.AttributeValue // the item that refused the statement, if it was returned
	err     error
}

// entry returns the entry that refused a statement. It returns nil if the entry was not returned or does not
// exist.
func (a *answer) entry() (*store.Entry, error) {
	if a.err != nil || len(a.item) == 0 {
		return nil, a.err
	}
	entry, err := decode(a.item)
	return &entry, err
}

// execute sends statements in concurrent requests and returns the answers in order.
func (s *Store) execute(ctx context.Context, statements []types.BatchStatementRequest) []answer {
	answers := make([]answer, len(statements))
	var bounds [][2]int
	for from, to := range chunks.Of(len(statements), MaxBatchSize,
		func(i int) int { return sizeOfStatement(&statements[i]) }) {
		bounds = append(bounds, [2]int{from, to})
	}
	chunks.Each(len(bounds), maxRequests, func(n int) {
		from, to := bounds[n][0], bounds[n][1]
		s.executeChunk(ctx, statements[from:to], answers[from:to])
	})
	return answers
}

func sizeOfStatement(statement *types.BatchStatementRequest) (n int) {
	for _, v := range statement.Parameters {
		n += sizeOfValue(v)
	}
	return n
}

// executeChunk sends statements in one request. It retries the statements that failed because of contention
// or throttling, because the SDK retries requests but not statements.
func (s *Store) executeChunk(ctx context.Context, statements []types.BatchStatementRequest,
	answers []answer) {
	left := make([]int, len(statements))
	for i := range left {
		left[i] = i
	}
	for attempt := 0; ; attempt++ {
		batch := make([]types.BatchStatementRequest, len(left))
		for n, i := range left {
			batch[n] = statements[i]
		}
		out, err := s.client.BatchExecuteStatement(ctx,
			&dynamodb.BatchExecuteStatementInput{Statements: batch})
		if err == nil && len(out.Responses) != len(batch) {
			err = fmt.Errorf("the service answered %d of %d statements", len(out.Responses), len(batch))
		}
		var again []int
		for n, i := range left {
			if err != nil {
				answers[i] = answer{err: err}
				continue
			}
			if answers[i] = answerOf(&out.Responses[n]); causeOf(answers[i].err).passes() {
				again = append(again, i)
			}
		}
		if left = again; len(left) == 0 || attempt+1 >= MaxAttempts || !pause(ctx, attempt) {
			return
		}
	}
}

func answerOf(r *types.BatchStatementResponse) answer {
	if r.Error == nil {
		return answer{}
	}
	switch r.Error.Code { //nolint:exhaustive // every other code is an error
	case types.BatchStatementErrorCodeEnumDuplicateItem,
		types.BatchStatementErrorCodeEnumConditionalCheckFailed:
		return answer{refused: true, item: r.Error.Item}
	}
	return answer{err: &smithy.GenericAPIError{Code: string(r.Error.Code),
		Message: aws.ToString(r.Error.Message)}}
}

// read reads the entries of the claims' keys and returns the claims whose keys could be read.
func (s *Store) read(ctx context.Context, reqs []store.ClaimRequest, claims []open,
	results []store.ClaimResult) []open {
	keys := make([]string, len(claims))
	for n, c := range claims {
		keys[n] = reqs[c.i].Key
	}
	left := claims[:0]
	for n, found := range s.find(ctx, keys) {
		c := claims[n]
		if found.err != nil {
			results[c.i].Err = s.explain("read", keys[n], found.err)
			continue
		}
		c.seen = found.entry
		left = append(left, c)
	}
	return left
}

// found is the result of reading one item, nil if there is none. An item that can't be decoded does not
// affect the others.
type found struct {
	entry *store.Entry
	err   error
}

// find reads the entries of keys, in order, by consistent reads.
func (s *Store) find(ctx context.Context, keys []string) []found {
	all := make([]found, len(keys))
	chunks.Each((len(keys)+maxKeys-1)/maxKeys, maxRequests, func(n int) {
		from, to := n*maxKeys, min((n+1)*maxKeys, len(keys))
		entries, err := s.get(ctx, keys[from:to])
		for i := from; i < to; i++ {
			if all[i] = entries[keys[i]]; err != nil {
				all[i].err = err
			}
		}
	})
	return all
}

// get reads up to maxKeys items.
func (s *Store) get(ctx context.Context, keys []string) (map[string]found, error) {
	entries := make(map[string]found, len(keys))
	all := make([]map[string]types.AttributeValue, len(keys))
	for i, key := range keys {
		all[i] = keyOf(key)
	}
	request := map[string]types.KeysAndAttributes{s.table: {Keys: all, ConsistentRead: aws.Bool(true)}}
	for attempt := 0; ; attempt++ {
		out, err := s.client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: request})
		if err != nil {
			return nil, err
		}
		for _, items := range out.Responses { // of one table, under its name, or its ARN
			for _, item := range items {
				entry, err := decode(item)
				entries[keyIn(item)] = found{entry: &entry, err: err}
			}
		}
		if request = out.UnprocessedKeys; len(request) == 0 {
			return entries, nil
		}
		if attempt+1 >= MaxAttempts || !pause(ctx, attempt) {
			left := 0
			for _, unread := range request {
				left += len(unread.Keys)
			}
			return nil, fmt.Errorf("%d of %d keys were left unread after %d requests: the table is throttled",
				left, len(keys), attempt+1)
		}
	}
}

// pause waits for the backoff after the given attempt. It returns false if the context ends first.
func pause(ctx context.Context, attempt int) bool {
	d, _ := backoff(attempt, nil)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

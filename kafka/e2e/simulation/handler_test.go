package simulation_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem"
	scheduler "github.com/idemsk/idemsk/idem/batch" // batch is one of the event source here
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/kafka"
)

// receipt is a handler's result.
type receipt struct {
	Payment payment `json:"payment"`
	Token   int64   `json:"token"`
}

// execution is a call of a handler.
type execution struct {
	process *process
	ctx     context.Context //nolint:containedctx // tells whether the handler still has its claim
	token   int64
	payment payment
	ended   bool
	first   bool // its attempt is the first one, and was not given back
	thrown  bool // its call failed as a whole
	down    bool // what the handler needs was down
}

// live reports whether the call still has its claim.
func (e *execution) live() bool { return !e.ended && e.ctx.Err() == nil && !e.process.ended() }

var errDown = errors.New("what the handler needs is down")

// handleAll is the bulk handler. It handles the records one after another.
func (p *process) handleAll(_ context.Context, rs []kafka.RecordAttempt) (results []scheduler.Result, err error) {
	results = make([]scheduler.Result, len(rs))
	threw := true
	defer func() {
		if threw {
			p.throw(rs)
		}
	}()
	for i := range rs {
		results[i].Value, err = p.handle(rs[i].Context(), *rs[i].Record)
		if results[i].Err = err; err != nil && p.throws && !idem.IsPermanent(err) {
			return nil, err
		}
	}
	threw = false
	return results, nil
}

// throw records that a call failed as a whole: the handler is called again with the same attempts.
func (p *process) throw(rs []kafka.RecordAttempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range rs {
		for _, calls := range p.handling {
			for _, e := range calls {
				if e.process == p && e.token == rs[i].Attempt.Token {
					e.thrown, e.first = true, false
				}
			}
		}
	}
}

// handle is the function's handler.
func (p *process) handle(ctx context.Context, r kafka.Record) ([]byte, error) {
	a, ok := idem.AttemptFrom(ctx)
	if !ok {
		p.violatedf(r.Source(), "was handled without a claim")
		return nil, idem.Permanent(errors.New("no attempt"))
	}
	var pay payment
	if err := json.Unmarshal(r.Value, &pay); err != nil {
		return nil, idem.Permanent(err)
	}
	e := p.begin(ctx, pay, a)
	defer p.ends(e)
	if err := sleep(ctx, p.work(&pay, a)); err != nil {
		return nil, context.Cause(ctx)
	}
	if e.down {
		return nil, errDown
	}
	switch pay.Kind {
	case permanent:
		return nil, idem.Permanent(errors.New("refused"))
	case hopeless:
		return nil, errors.New("never succeeds")
	case flaky, panicking:
		if p.calls(pay.ID) <= pay.Failures {
			if pay.Kind == panicking {
				panic("a panic")
			}
			return nil, idem.RetryAfter(errors.New("fails for now"), time.Duration(p.dice.between(0, 1500, pay.ID+" delay"))*time.Millisecond)
		}
	case fenced:
		if err := p.overwrite(ctx, &pay, a.Token); err != nil {
			return nil, err
		}
		return json.Marshal(receipt{pay, a.Token})
	case booked, slow:
	}
	if p.Careless {
		booking := add(bookingsTable, "payment", pay.ID, 1).Update
		_, err := p.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: booking.TableName, Key: booking.Key, UpdateExpression: booking.UpdateExpression,
			ExpressionAttributeNames: booking.ExpressionAttributeNames, ExpressionAttributeValues: booking.ExpressionAttributeValues,
		})
		return nil, err
	}
	tx, err := dynamostore.TxFrom(ctx)
	if err != nil {
		return nil, err
	}
	if err := tx.Enlist(add(bookingsTable, "payment", pay.ID, 1), add(accountsTable, "account", pay.Account, pay.Amount)); err != nil {
		return nil, err
	}
	return json.Marshal(receipt{pay, a.Token})
}

// work is how long an attempt takes.
func (p *process) work(pay *payment, a idem.Attempt) time.Duration {
	name := "work of " + pay.ID + " " + strconv.Itoa(a.Number)
	if pay.Kind == slow {
		return time.Duration(p.dice.between(1000, 2500, name)) * p.lease / 1000
	}
	if p.dice.chance(0.2, name+" is slow") {
		return time.Duration(p.dice.between(0, 800, name)) * p.lease / 1000
	}
	return time.Duration(p.dice.between(0, 20_000_000, name))
}

// begin records the call of a handler. The caller calls ends. Two owners must not have the same payment at the same time.
func (p *process) begin(ctx context.Context, pay payment, a idem.Attempt) *execution {
	e := &execution{process: p, ctx: ctx, token: a.Token, payment: pay, down: p.isDown()}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, other := range p.handling[pay.ID] {
		switch {
		case p.overlaps():
		case other.live():
			p.violatedLockedf(pay.ID, "is handled by %s with token %d while %s handles it with token %d", p.name, a.Token, other.process.name, other.token)
		case other.token == a.Token && !other.thrown:
			p.violatedLockedf(pay.ID, "is handled twice with token %d, by %s and %s", a.Token, other.process.name, p.name)
		}
	}
	if status := p.entries[pay.ID].status; !p.overlaps() && (status == completed || status == failed) && ctx.Err() == nil {
		p.violatedLockedf(pay.ID, "is handled by %s with token %d, and is %s", p.name, a.Token, status)
	}
	if e.first = a.Number == 1; e.first && p.claimRange && !p.overlaps() && p.firsts(pay.ID) >= 2 {
		p.violatedLockedf(pay.ID, "is handled by %s with token %d as attempt 1, which was begun twice before", p.name, a.Token)
	}
	p.handling[pay.ID] = append(p.handling[pay.ID], e)
	p.trace = append(p.trace, event{time.Since(p.begun), p.name, "handles " + pay.ID + " " + string(pay.Kind) + ", attempt " + strconv.Itoa(a.Number) +
		", token " + strconv.FormatInt(a.Token, 10)})
	return e
}

func (p *process) ends(e *execution) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.ended = true
}

// firsts counts the calls with the number 1. With IDEMSK_CLAIM=partition a process may die in one that is not counted. The caller holds w.mu.
func (w *world) firsts(payment string) (n int) {
	for _, e := range w.handling[payment] {
		if e.first {
			n++
		}
	}
	return n
}

// calls counts the calls of the handler for a payment. The number of the attempt does not: see firsts.
func (w *world) calls(payment string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.handling[payment])
}

// add returns a write that adds to a number.
func add(table, attribute, key string, n int) dynamostore.Write {
	return dynamostore.Write{Update: &types.Update{
		TableName: &table, Key: map[string]types.AttributeValue{attribute: &types.AttributeValueMemberS{Value: key}},
		UpdateExpression: aws.String("ADD #n :n"), ExpressionAttributeNames: map[string]string{"#n": "total"},
		ExpressionAttributeValues: map[string]types.AttributeValue{":n": &types.AttributeValueMemberN{Value: strconv.Itoa(n)}},
	}}
}

// overwrite is an effect outside of the transaction, at a target that refuses smaller tokens.
func (p *process) overwrite(ctx context.Context, pay *payment, token int64) error {
	table := bookingsTable
	_, err := p.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &table, Key: map[string]types.AttributeValue{"payment": &types.AttributeValueMemberS{Value: pay.ID}},
		UpdateExpression: aws.String("SET #t = :t"), ConditionExpression: aws.String("attribute_not_exists(#t) OR #t <= :t"),
		ExpressionAttributeNames:  map[string]string{"#t": "token"},
		ExpressionAttributeValues: map[string]types.AttributeValue{":t": &types.AttributeValueMemberN{Value: strconv.FormatInt(token, 10)}},
	})
	if err != nil {
		return idem.Unavailable(err)
	}
	return nil
}

package simulation_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/dynamooutbox"
)

// receipt is a handler's result.
type receipt struct {
	Source string `json:"source"`
	Token  int64  `json:"token"`
}

// execution is a call of a handler with a claim.
type execution struct {
	process    *process
	ctx        context.Context //nolint:containedctx // tells whether the handler still has its claim
	token      int64
	record     *record
	ended      bool
	succeeded  bool
	at         time.Time     // when it ended
	err        error         // nil for a panic too
	delay      time.Duration // that its error asks for
	first      bool          // its attempt is the first one, and was not given back
	cause      error         // of the end of its context
	cancelled  bool          // its claim was lost, or its process is to end
	outOfTurn  bool          // a record before it in its lane failed in its call
	beside     bool          // its call had other records too
	besideGood bool          // one of which succeeded, which is no outage
	thrown     bool          // its call failed as a whole, which is no evidence against its record
	counted    bool          // its attempt was counted when its key was released
	down       bool          // what the handler needs was down
	inOutage   bool          // it failed, and as many keys had as are an outage
	died       bool          // its process had ended when it ended
	begun      time.Time
}

// live reports whether the call still has its claim.
func (e *execution) live() bool { return !e.ended && e.ctx.Err() == nil && !e.process.ended() }

var (
	errDown    = errors.New("what the handler needs is down")
	errForNow  = errors.New("fails for now")
	errUnknown = errors.New("is no record of the topic")
)

// handle is the function's handler.
func (p *process) handle(ctx context.Context, kr kafka.Record) ([]byte, error) {
	r := p.recordAt(placeOf(kr.Partition, kr.Offset, kr.Timestamp.UnixMilli()))
	if r == nil {
		p.violatedf(kr.Source(), "was handled, and %v", errUnknown)
		return nil, idem.Permanent(errUnknown)
	}
	if p.ended() {
		return nil, errEnded // nothing that it does any more has an effect
	}
	a, ok := idem.AttemptFrom(ctx)
	if !ok {
		return p.handleUnprotected(ctx, r)
	}
	e := p.begin(ctx, r, a)
	succeeded := false
	defer func() { p.ends(e, succeeded) }() // also after a panic
	result, err := p.execute(ctx, e, a)
	e.err, succeeded = err, err == nil
	return result, err
}

// handleUnprotected handles a record without a claim, which is allowed while the store does not answer. It
// has no effect that is counted.
func (p *process) handleUnprotected(ctx context.Context, r *record) ([]byte, error) {
	p.mu.Lock()
	p.opened++
	p.lastOpened = time.Now()
	p.mu.Unlock()
	if p.promises(protected) || !p.link.failedLately() {
		p.violatedf(r.source(), "was handled by %s without a claim, and the store answered", p.name)
	}
	if r.key == "" {
		p.violatedf(r.source(), "was handled, and has no key")
		return nil, nil
	}
	if err := sleep(ctx, p.work(r, 0)); err != nil {
		return nil, context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trace = append(p.trace, event{time.Since(p.begun), p.name, "handles " + r.key + " without a claim"})
	if r.payment.Kind.fails() && !p.fixed {
		p.of(r.key).refused = true
		return nil, idem.Permanent(errForNow)
	}
	p.of(r.key).unprotected++
	return nil, nil
}

// execute is what the handler does with a claim.
func (p *process) execute(ctx context.Context, e *execution, a idem.Attempt) ([]byte, error) {
	pay := &e.record.payment
	err := sleep(ctx, p.work(e.record, a.Number))
	if p.checkHeld(e); err != nil {
		return nil, context.Cause(ctx)
	}
	if e.down {
		return nil, errDown
	}
	calls, repaired := p.calls(e.record.key)
	switch {
	case repaired && pay.Kind.fails():
	case pay.Kind == permanent:
		return nil, idem.Permanent(errForNow)
	case pay.Kind == hopeless:
		return nil, errForNow
	case pay.Kind == poison:
		p.log(p.name, "ends with the poison "+e.record.key)
		p.end()
		return nil, errForNow
	case calls > pay.Failures:
	case pay.Kind == panicking:
		panic("a panic")
	case pay.Kind == flaky:
		e.delay = p.delay(pay)
		return nil, idem.RetryAfter(errForNow, e.delay)
	case pay.Kind == waiting:
		e.delay = p.delay(pay)
		return nil, idem.Unavailable(idem.RetryAfter(errForNow, e.delay))
	case pay.Kind == rejected:
		return nil, p.enlist(ctx, e.record, a.Token, false)
	}
	if err := p.effect(ctx, e.record, a); err != nil {
		return nil, err
	}
	return json.Marshal(receipt{e.record.source(), a.Token})
}

// delay is how long a payment asks to be retried later.
func (p *process) delay(pay *payment) time.Duration {
	return time.Duration(p.dice.between(0, 1500, pay.ID+" delay")) * time.Millisecond
}

// effect is what a handler does that succeeds.
func (p *process) effect(ctx context.Context, r *record, a idem.Attempt) error {
	switch {
	case p.Careless:
		booking := add(bookingsTable, "payment", r.key, 1).Update
		_, err := p.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: booking.TableName, Key: booking.Key, UpdateExpression: booking.UpdateExpression,
			ExpressionAttributeNames:  booking.ExpressionAttributeNames,
			ExpressionAttributeValues: booking.ExpressionAttributeValues,
		})
		return err
	case p.is("effects", "fenced"):
		return p.overwrite(ctx, r.key, a.Token)
	case p.is("effects", "none"):
		return nil
	}
	return p.enlist(ctx, r, a.Token, true)
}

// enlist enlists the booking of a payment, with an event if there is an outbox. The store rejects it unless
// it is possible.
func (p *process) enlist(ctx context.Context, r *record, token int64, possible bool) (err error) {
	tx, err := dynamostore.TxFrom(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && ctx.Err() == nil {
			p.violatedf(r.key, "can't enlist its effect: %v", err)
		}
	}()
	booking := add(bookingsTable, "payment", r.key, 1)
	if !possible {
		booking.Update.ConditionExpression = aws.String("#n < :n AND attribute_exists(missing)")
	}
	err = tx.Enlist(booking, add(accountsTable, "account", r.payment.Account, r.payment.Amount))
	if err != nil || !p.is("effects", "outbox") {
		return err
	}
	return outbox.Publish(ctx, outbox.Event{ID: eventID(r.key, token), Topic: "booked",
		Key: []byte(r.payment.Account), Value: []byte("{}")})
}

// eventID is the ID of the event of a completion, which is a UUID.
func eventID(key string, token int64) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", key, token))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// newHandler returns the handler of a process, in the outbox if there is one.
func (p *process) newHandler() kafka.HandlerFunc {
	if !p.is("effects", "outbox") {
		return p.handle
	}
	box, err := dynamooutbox.New(dynamooutbox.Config{Table: outboxTable})
	if err != nil {
		panic(err) // the table has a name
	}
	return dynamooutbox.Handler(box, p.handle)
}

// work is how long an attempt takes. Without dead letters a handler that takes most of a delivery's time
// could be stopped by each deadline, for ever.
func (p *process) work(r *record, attempt int) time.Duration {
	name := "work of " + r.source() + " " + strconv.Itoa(attempt)
	if r.payment.Slow && (attempt < 5 || !p.is("letters", "none")) {
		return time.Duration(p.dice.between(1000, 2500, name)) * p.lease / 1000
	}
	if p.dice.chance(0.2, name+" is slow") {
		return time.Duration(p.dice.between(0, 800, name)) * p.lease / 1000
	}
	return time.Duration(p.dice.between(0, 20_000_000, name))
}

// begin records the call of a handler with a claim. The caller calls ends.
func (p *process) begin(ctx context.Context, r *record, a idem.Attempt) *execution {
	e := &execution{process: p, ctx: ctx, token: a.Token, record: r, down: p.during(outage),
		first: a.Number == 1, begun: time.Now()}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trace = append(p.trace, event{time.Since(p.begun), p.name,
		"handles " + r.source() + " " + r.key + " " + string(r.payment.Kind) +
			", attempt " + strconv.Itoa(a.Number) + ", token " + strconv.FormatInt(a.Token, 10)})
	if r.key == "" {
		p.violatedLockedf(r.source(), "was handled, and has no key")
		return e
	}
	h := p.of(r.key)
	wrong := func(format string, args ...any) { p.violatedLockedf(r.key, format, args...) }
	p.checkAlone(h, e, wrong)
	p.checkUnrepeated(h, e, wrong)
	if !p.is("letters", "none") && int64(a.Number) > p.maxAttempts {
		wrong("is handled by %s as attempt %d of %d", p.name, a.Number, p.maxAttempts)
	}
	p.checkOrder(r, wrong)
	p.checkTries(p.keys, wrong)
	p.checkWindow(wrong)
	h.calls = append(h.calls, e)
	return e
}

// checkAlone checks that no other handler has the claim of a key, and that the key is not final.
func (p *process) checkAlone(h *history, e *execution, wrong func(string, ...any)) {
	if !p.promises(alone) {
		return
	}
	for _, other := range h.calls {
		switch {
		case other.live():
			wrong("is handled by %s with token %d while %s handles it with token %d", p.name, e.token,
				other.process.name, other.token)
		case other.token == e.token && !other.thrown:
			wrong("is handled twice with token %d, by %s and %s", e.token, other.process.name, p.name)
		case other.token > e.token && e.ctx.Err() == nil && p.promises(once):
			// a call of several records goes on after a lost claim
			wrong("is handled by %s with token %d, and was handled by %s with token %d before", p.name,
				e.token, other.process.name, other.token)
		}
	}
	if h.entry.final() && h.entry.token >= e.token && e.ctx.Err() == nil {
		wrong("is handled by %s with token %d, and is %s", p.name, e.token, h.entry.status)
	}
}

// checkHeld checks that a handler is told when the lease of its key is over by the clock of its process. A
// call of several records is not.
func (p *process) checkHeld(e *execution) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := &p.of(e.record.key).entry
	over := time.Now().Add(p.offset).UnixMilli() - h.lease
	held := h.status == started && h.token == e.token && h.retry == 0
	if held && over > 1 && p.is("handler", "record") && !p.ended() {
		p.violatedLockedf(e.record.key, "is handled by %s still, %d ms after the end of its lease", p.name,
			over)
	}
}

// checkOrder checks that the earlier records of the lane were handled. Those that were redriven come when
// they come.
func (p *process) checkOrder(r *record, wrong func(string, ...any)) {
	lane := p.lane(r)
	if lane == "" || !p.promises(ordered) || p.topic.byPlace[r.place()] != r || r.lost != "" {
		return
	}
	for _, earlier := range p.topic.all {
		if earlier == r {
			return
		}
		together := p.inCall(earlier, r)
		if earlier.lost != "" || p.lane(earlier) != lane || earlier.Timestamp > r.Timestamp || together ||
			p.settledRecord(earlier) {
			continue
		}
		succeeded := earlier.key != "" &&
			slices.ContainsFunc(p.of(earlier.key).calls, func(e *execution) bool { return e.succeeded })
		if !succeeded || p.transactional() { // an effect must be committed before the next one
			wrong("%s is handled before %s, which is earlier in its lane", r.source(), earlier.source())
		}
	}
}

// inCall reports whether a record is in a call of a bulk handler with another, or waits for the outcome of one with its
// key that is.
func (w *world) inCall(r, with *record) bool {
	return slices.ContainsFunc(w.topic.all, func(other *record) bool {
		return (other == r || other.key == r.key && r.key != "") &&
			slices.ContainsFunc(with.calls, func(call int) bool { return slices.Contains(other.calls, call) })
	})
}

// checkWindow checks that no more completions than the commit window have no answer yet; if completions are not
// sent together, no more than the handlers at once.
func (p *process) checkWindow(wrong func(string, ...any)) {
	c, n := p.variables(), 0
	for _, h := range p.keys {
		for _, e := range h.calls {
			if e.process == p && e.unconfirmed(&h.entry) {
				n++
			}
		}
	}
	most := c.number("IDEMSK_COMMIT_WINDOW")
	if c.is("IDEMSK_BATCHING", "off") || c.is("IDEMSK_EFFECTS", "at-most-once") || c.is("IDEMSK_MAX_ATTEMPTS", "1") {
		most = max(most, c.number("IDEMSK_CONCURRENCY"))
	}
	if n > most {
		wrong("is handled by %s, and %d completions are not confirmed", p.name, n)
	}
}

// unconfirmed reports whether the completion of a handler that has succeeded may be in progress.
func (e *execution) unconfirmed(now *entry) bool {
	refused := e.record.payment.Kind == rejected // it is answered, and its dead letter is sent
	return e.succeeded && !e.thrown && !refused && !e.givenUp() && now.status == started &&
		now.token == e.token && now.retry == 0
}

// givenUp reports whether the completion of a handler is no longer tried: a process does so for a lease, an
// invocation until shortly after its handlers' time.
func (e *execution) givenUp() bool {
	end, bounded := e.ctx.Deadline()
	return time.Since(e.at) >= e.process.lease || bounded && time.Now().After(end)
}

func (p *process) ends(e *execution, succeeded bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.ended, e.succeeded, e.at = true, succeeded, time.Now()
	e.cancelled, e.cause = e.ctx.Err() != nil, context.Cause(e.ctx)
	e.died = p.ended()
	p.note(e)
}

// calls counts the calls of the handler for a key. The number of the attempt does not: see counted. It also
// tells whether operators have repaired what makes payments fail.
func (w *world) calls(key string) (n int, repaired bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.of(key).calls), w.fixed
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
func (p *process) overwrite(ctx context.Context, key string, token int64) error {
	table := bookingsTable
	_, err := p.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &table, Key: map[string]types.AttributeValue{"payment": &types.AttributeValueMemberS{Value: key}},
		UpdateExpression:          aws.String("SET #t = :t"),
		ConditionExpression:       aws.String("attribute_not_exists(#t) OR #t <= :t"),
		ExpressionAttributeNames:  map[string]string{"#t": "token"},
		ExpressionAttributeValues: map[string]types.AttributeValue{":t": &types.AttributeValueMemberN{Value: strconv.FormatInt(token, 10)}},
	})
	var refused *types.ConditionalCheckFailedException
	switch {
	case errors.As(err, &refused):
		// a later attempt has written it; tokens can go back when clocks differ by more than the skew
		return nil
	case err != nil: // the request may have had its effect
		return idem.OutcomeUnknown(idem.Unavailable(err))
	}
	return nil
}

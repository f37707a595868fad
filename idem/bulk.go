package idem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/idemsk/idemsk/idem/internal/machine"
	"github.com/idemsk/idemsk/idem/store"
)

// BulkHandler handles several items in one call and returns the result of each, in the order of the items.
// The error of a result is treated as an error of a Handler. The context ends when a handler's context
// would end. Item.Context is the context of one item, with its attempt.
//
// A call has a run of the next items of each of its lanes, in order. If an item fails, those behind it in its lane
// that fail too use no attempt, whatever their errors: they are handled again after it. Those that succeed are
// completed, because their effects took place.
//
// An error of the call, a panic, or another number of results means that the call failed as a whole. That is
// no evidence against one of its items: the handler is called again for each of them alone, in their order,
// and only a failure of such a call counts as an attempt. The items behind it in its lane wait for it. So the
// effect of an item can happen twice if a call fails after it, unless it is enlisted in a transaction of the
// store (store.EffectFrom). Unavailable releases all items. With Config.AtMostOnce the items of a call
// that failed as a whole are not handled again: their outcome is unknown. Unavailable then says that no item
// had its effect. The call has no transaction.
//
// If the handler takes the effect of the call (store.EffectFrom with the context of the call, as
// pgstore.TxFrom does), this effect commits with the completions of all items, or nothing does. If some items
// fail, it is discarded, and the handler is called once more for the others, except those behind them in their
// lanes. Otherwise the effects of one
// call are not one transaction: if the process dies during the call, all of its items are handled again.
type BulkHandler func(ctx context.Context, items []*Item) ([]BulkResult, error)

// BulkResult is the result of one item.
type BulkResult struct {
	Value []byte // stored, and replayed to duplicates
	Err   error
}

// callBulk calls the handler for claimed items, and returns when their completions are answered. It calls next when
// the next call may begin: when nothing is left but completions, otherwise before it returns.
func (d *driver) callBulk(items []*Item, next func()) {
	c := &bulkCall{driver: d, parts: make([]bulkPart, len(items))}
	claims := make([]*claim, len(items))
	for i, it := range items {
		claims[i], c.parts[i].item = &it.claim, it
		c.parts[i].ended.Add(1)
	}
	var begun []*bulkPart
	var ends []machine.Event
	stopped := make(map[*machine.Lane]bool)
	for i, b := range d.session.Begin(claims, c.done) {
		p := &c.parts[i]
		p.begun = b
		switch it := p.item; {
		case b == nil:
			ends = append(ends, machine.Returned{Item: &it.place})
			stopped[it.place.In()] = stopped[it.place.In()] || it.place.Again || !it.Outcome.Kind.Settled()
		case stopped[it.place.In()], b.Context().Err() != nil: // its claim was lost while others waited for answers
			behind := stopped[it.place.In()]
			stopped[it.place.In()] = true
			c.waits = true
			c.rest.Go(func() {
				b.Withdraw(behind)
				d.pass(machine.Returned{Item: &it.place})
			})
		default:
			begun = append(begun, p)
		}
	}
	c.tell(ends)
	if c.invoke(begun); !c.waits {
		next()
	}
	for i := range c.parts {
		c.parts[i].ended.Wait()
	}
	if c.rest.Wait(); c.waits {
		next()
	}
}

// bulkCall is one call of the handler. Each item is a task of its own, with its heartbeat and its settlement.
type bulkCall struct {
	driver *driver
	parts  []bulkPart
	busy   atomic.Bool    // the goroutine of the call tells the machine soon
	rest   sync.WaitGroup // the goroutines of items that end alone
	waits  bool           // there are some: what an item fails with can stop the next call
}

// bulkPart is one item of a call.
type bulkPart struct {
	item   *Item
	begun  *begun         // nil if it has ended without the call
	result BulkResult     // of the handler
	ended  sync.WaitGroup // until its settlement is answered
	failed bool           // it has ended, and is not settled
	final  bool           // the handler has ended the transaction: another call could repeat its effect
}

// done notes the outcome of an item.
func (c *bulkCall) done(i int, out Outcome, more bool) {
	p := &c.parts[i]
	p.failed = !out.Kind.Settled()
	c.driver.note(p.item, out)
	if !more && !c.busy.Load() {
		c.driver.takeSteps()
	}
	p.ended.Done()
}

// tell tells the machine of ends, and of the outcomes that were noted, in one step.
func (c *bulkCall) tell(ends []machine.Event) {
	c.busy.Store(false)
	c.driver.pass(ends...)
}

// end ends items by their results: those that need no answer in one step, the others in a goroutine each.
func (c *bulkCall) end(parts []*bulkPart) {
	c.busy.Store(true)
	begun := make([]*begun, len(parts))
	for i, p := range parts {
		begun[i] = p.begun
	}
	ends := make([]machine.Event, 0, len(parts))
	for i, rest := range c.driver.session.Return(begun, func(i int) ([]byte, error) {
		return parts[i].result.Value, parts[i].result.Err
	}) {
		p := parts[i]
		if rest == nil {
			ends = append(ends, machine.Returned{Item: &p.item.place})
			continue
		}
		c.waits = true
		c.rest.Go(func() {
			rest()
			c.driver.pass(machine.Returned{Item: &p.item.place})
		})
	}
	c.tell(ends)
}

// errRolledBack means that the transaction of a call was rolled back twice because of some of its items.
var errRolledBack = errors.New("the transaction of a call of several items was rolled back, " +
	"because some of them failed")

// invoke calls the handler for items. If the effect of the call is a transaction, which was rolled back because
// some items failed, it calls the handler once more for the others.
func (c *bulkCall) invoke(parts []*bulkPart) {
	left, err := c.invokeTogether(parts)
	if err == nil && c.driver.session.handlers.Err() == nil {
		left, err = c.invokeTogether(left)
	}
	c.invokeEach(left, cmp.Or(err, errRolledBack))
}

// invokeTogether calls the handler once for all parts, and returns those that must be handled again. An error
// means that the call failed as a whole.
func (c *bulkCall) invokeTogether(parts []*bulkPart) (left []*bulkPart, err error) {
	if len(parts) == 0 {
		return nil, nil
	}
	results, again, err := c.results(parts)
	switch {
	case err != nil && len(parts) > 1 && !IsUnavailable(err):
		c.driver.scheduler.calls.failed()
		if !c.driver.scheduler.engine.cfg.AtMostOnce {
			return parts, err
		}
		results = slices.Repeat([]BulkResult{{Err: CallFailed(err)}}, len(parts))
	case err == nil:
		c.driver.scheduler.calls.succeeded(len(parts))
	}
	late := len(parts) > 1 && errors.Is(c.driver.session.handlers.Err(), context.DeadlineExceeded)
	together := slices.ContainsFunc(results, func(r BulkResult) bool { return r.Err == nil })
	stopped := make(map[*machine.Lane]bool)
	ended := make([]*bulkPart, 0, len(parts))
	for i, p := range parts {
		redo := slices.Contains(again, i)
		if redo && !stopped[p.item.place.In()] {
			left = append(left, p)
			continue
		}
		p.result = results[i]
		if err := p.result.Err; late && errors.Is(err, context.DeadlineExceeded) {
			p.result.Err = CallFailed(err) // the call took too long
		}
		if redo {
			p.result.Err = errRolledBack
		}
		p.stopLane(stopped)
		p.item.claim.Together = together
		ended = append(ended, p)
	}
	c.end(ended)
	return left, nil
}

// stopLane stops the lane of an item that has failed. One that fails behind another in its lane is handled again
// after that (rule S2), unless that could repeat its effect.
func (p *bulkPart) stopLane(stopped map[*machine.Lane]bool) {
	err := p.result.Err
	switch {
	case err == nil || p.final || isResultUnavailable(err):
	case stopped[p.item.place.In()]:
		p.result = BulkResult{Err: OutOfTurn(fmt.Errorf("%w: in its call: %w", ErrBehind, err))}
	default:
		stopped[p.item.place.In()] = true
	}
}

// invokeEach calls the handler for each item alone, after the call for all of them has failed with an error,
// and without what that call has enlisted: lane by lane, and of a lane until one fails. The completion of an item
// is answered before the next call begins: a handler that ends the process then repeats nothing but its own item.
// Items for which no time is left, and all that follow the beginning of an outage, are released, and get a call of
// their own in their next delivery.
func (c *bulkCall) invokeEach(parts []*bulkPart, failed error) {
	for _, p := range parts { // also of the items that wait: in a database, effects can block each other
		store.DiscardEffect(p.begun.Context())
	}
	stopped := make(map[*machine.Lane]bool)
	for _, p := range byLane(parts) {
		_, down := c.driver.scheduler.engine.handlerDown()
		late := down || p.begun.Context().Err() != nil || c.driver.session.handlers.Err() != nil
		switch {
		case late:
			p.result = BulkResult{Err: CallFailed(failed)}
		case stopped[p.item.place.In()]:
			p.result = BulkResult{Err: failed}
		default:
			p.item.claim.Again = true
			results, _, _ := c.results([]*bulkPart{p}) // the error is that of the result
			p.result = results[0]
		}
		called := !late && !stopped[p.item.place.In()]
		p.stopLane(stopped)
		if c.end([]*bulkPart{p}); called {
			p.ended.Wait() // the store can refuse what the handler has enlisted
			stopped[p.item.place.In()] = stopped[p.item.place.In()] || p.failed
		}
	}
}

// byLane returns the parts lane by lane.
func byLane(parts []*bulkPart) []*bulkPart {
	first := make(map[*machine.Lane]int)
	for i, p := range parts {
		if _, ok := first[p.item.place.In()]; !ok {
			first[p.item.place.In()] = i
		}
	}
	parts = slices.Clone(parts)
	slices.SortStableFunc(parts, func(a, b *bulkPart) int { return first[a.item.place.In()] - first[b.item.place.In()] })
	return parts
}

// results calls the handler, commits the transaction of the call if it has one, and returns a result for each
// part. An error means that the call failed as a whole; each result has it then. again has the indices of the
// parts that must be handled again: see jointCall.Commit.
func (c *bulkCall) results(parts []*bulkPart) (results []BulkResult, again []int, err error) {
	items, claims := make([]*Item, len(parts)), make([]*claim, len(parts))
	for i, p := range parts {
		items[i], claims[i] = p.item, &p.item.claim
	}
	call := c.driver.session.Call(claims)
	for _, p := range parts {
		p.item.ctx = call.TaskContext(p.begun.Context()) //nolint:fatcontext // each part has its own
	}
	results, err = c.handle(call, items)
	sealed := call.Seal()
	switch {
	case err != nil:
		call.Discard()
	case IsPermanent(sealed): // the handler has ended it
		for _, p := range parts {
			p.final = true
		}
		return slices.Repeat([]BulkResult{{Err: sealed}}, len(parts)), nil, nil
	case sealed != nil:
		err = sealed
	default:
		again, err = call.Commit(func(i int) ([]byte, error) { return results[i].Value, results[i].Err })
	}
	if err != nil {
		return slices.Repeat([]BulkResult{{Err: err}}, len(parts)), nil, err
	}
	return results, again, nil
}

// handle calls the handler with a context.
func (c *bulkCall) handle(ctx context.Context, items []*Item) (results []BulkResult, err error) {
	err = OutcomeUnknown(errors.New("the handler ended its goroutine (runtime.Goexit)")) // if it does
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				err = &PanicError{Value: v, Stack: debug.Stack()}
			}
		}()
		results, err = c.driver.scheduler.cfg.Bulk(ctx, items)
		if err == nil && len(results) != len(items) {
			err = OutcomeUnknown(fmt.Errorf("idem: the handler returned %d results for %d items: want one for each",
				len(results), len(items)))
		}
	}()
	<-done
	return results, err
}

// callSizes bounds the number of items in a call. It is small after a call that failed as a whole, so that
// the next bad item makes few others run again. It grows by an eighth with each call of that many items that
// does not fail: it is 60 after 500 items, and 250 after 2,200.
type callSizes struct {
	mu    sync.Mutex
	limit int // 0: none
}

// size returns the number of items of the next call, at most most.
func (s *callSizes) size(most int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limit == 0 {
		return most
	}
	return min(s.limit, most)
}

func (s *callSizes) failed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = 1
}

func (s *callSizes) succeeded(items int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limit > 0 && items >= s.limit {
		s.limit += max(1, s.limit/8) //nolint:mnd // see callSizes
	}
}

package linear

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// client makes random operations, one call after another.
type client struct {
	*run
	Client
	number int
	rand   *rand.Rand
	calls  int
}

// work makes calls until the context ends. The calls themselves do not end with it, so that each operation
// has an end.
func (c *client) work(ctx context.Context) {
	calls := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		c.calls++
		if c.Disturb != nil && c.rand.IntN(faultEvery) == 0 {
			c.Disturb(c.rand)
		}
		if c.Between != nil {
			c.Between(c.rand)
		}
		if c.Sweep != nil && c.rand.IntN(sweepEvery) == 0 {
			_ = c.Sweep(calls) // it deletes what it can, or nothing
		}
		switch n := c.rand.IntN(100); { //nolint:mnd // percentages
		case n < 42:
			c.claim(calls)
		case n < 86:
			c.settle(calls)
		case n < 92 && c.Effects != nil:
			c.count(calls)
		case n < 97:
			c.get(calls)
		default:
			c.remove(calls)
		}
	}
}

// call makes a call with an operation on each key, and records them. It sets their answers.
func (c *client) call(keys []*key, ops []operation, call func()) {
	begun, from := c.order.Add(1), c.Now().UnixMilli()
	if c.Sent != nil {
		c.Sent()
	}
	call()
	sent := 1
	if c.Sent != nil {
		sent = c.Sent()
	}
	to, ended := c.Now().UnixMilli(), c.order.Add(1)
	for i := range ops {
		o := &ops[i]
		o.client, o.begun, o.ended, o.now, o.again = c.number, begun, ended, span{min(from, to),
			max(from, to)}, max(0, sent-1)
		c.done(keys[i], *o)
	}
}

// some returns the keys of a call: often one.
func (c *client) some() []*key { return c.pick(c.rand, 1+max(0, c.rand.IntN(6)-3)) }

func (c *client) claim(ctx context.Context) {
	keys := c.some()
	reqs, ops := make([]store.ClaimRequest, len(keys)), make([]operation, len(keys))
	for i, k := range keys {
		reqs[i] = c.request(k, i)
		ops[i].claim = &reqs[i]
	}
	c.call(keys, ops, func() {
		results := c.Store.Claim(ctx, reqs)
		for i := range ops {
			ops[i].claimAnswer(&results[i])
		}
	})
}

// request returns a claim of the key: mostly one by a new owner, with the same fingerprint and with the right
// to take over.
func (c *client) request(k *key, n int) store.ClaimRequest {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.claims) > 0 && c.rand.IntN(12) == 0 {
		return k.claims[c.rand.IntN(len(k.claims))] // sent again
	}
	r := store.ClaimRequest{
		Key: k.name, Owner: fmt.Sprintf("o%d-%d-%d", c.number, c.calls, n),
		Source: fmt.Sprint("payments-3@", c.calls), Fingerprint: store.Fingerprint{1},
		Lease: c.ms(1, 120), Retention: c.retention(), TakeOver: c.rand.IntN(3) > 0,
	}
	switch c.rand.IntN(12) {
	case 0:
		r.Fingerprint = store.Fingerprint{2}
	case 1, 2:
		r.Fingerprint = store.Fingerprint{}
	}
	switch c.rand.IntN(5) { //nolint:mnd // a fifth each
	case 0, 1:
		r.RedriveToken = k.failed
	case 2:
		r.RedriveToken = k.failed + int64(c.rand.IntN(3)) - 1
	case 3: // mostly that of a key that has not failed
		if n := len(k.held); n > 0 {
			r.RedriveToken = k.held[n-1].Token
		}
	}
	return r
}

// ms returns a duration of whole milliseconds.
func (c *client) ms(from, to int) time.Duration {
	return time.Duration(from+c.rand.IntN(to-from+1)) * time.Millisecond
}

func (c *client) retention() time.Duration {
	if c.rand.IntN(3) == 0 {
		return time.Hour
	}
	return c.ms(1, 300)
}

func (c *client) settle(ctx context.Context) {
	keys := c.some()
	ss, ops := make([]store.Settlement, len(keys)), make([]operation, len(keys))
	for i, k := range keys {
		ss[i] = c.settlement(k)
		ops[i].settle = &ss[i]
	}
	if c.Effects != nil {
		c.enlist(ctx, &ss[0])
	}
	c.call(keys, ops, func() {
		errs := c.Store.Settle(ctx, ss)
		for i := range ops {
			var err error
			if errs != nil {
				err = errs[i]
			}
			ops[i].errorAnswer(err, gotDone)
		}
	})
}

func (c *client) count(ctx context.Context) {
	keys, ops := c.pick(c.rand, 1), []operation{{count: new(int)}}
	c.call(keys, ops, func() {
		n, err := c.Effects.Read(ctx, keys[0].name)
		*ops[0].count = n
		ops[0].errorAnswer(err, gotCount)
	})
}

// enlist gives a completion an effect, or none.
func (c *client) enlist(ctx context.Context, s *store.Settlement) {
	if s.Op != store.OpComplete || c.rand.IntN(3) == 0 {
		return
	}
	e := c.Effects.NewEffect()
	err := c.Effects.Count(ctx, e, s.Key)
	if err == nil {
		_, err = e.Seal()
	}
	if err != nil { // the network was disturbed
		e.Discard()
		return
	}
	s.Effect = e
}

// settlement returns a settlement of a claim, mostly of the last one.
func (c *client) settlement(k *key) store.Settlement {
	s := store.Settlement{Key: k.name, Token: 1, Owner: "no-owner", Retention: c.retention()}
	if held := c.held(k); held != nil {
		s.Token, s.Owner = held.Token, held.Owner
	}
	switch c.rand.IntN(20) {
	case 0:
		s.Owner = "no-owner"
	case 1:
		s.Token -= int64(c.rand.IntN(3)) // not one that is issued later, which no caller knows
	}
	var failure *store.Failure
	if c.rand.IntN(2) == 0 {
		failure = &store.Failure{Code: store.CodeError,
			Message: fmt.Sprint("failure ", c.number, "-", c.calls)}
	}
	switch n := c.rand.IntN(100); { //nolint:mnd // percentages
	case n < 15:
		s.Op, s.Result = store.OpComplete, fmt.Append(nil, "result ", c.number, "-", c.calls)
		if c.rand.IntN(50) == 0 {
			s.Result = append(s.Result, make([]byte, 6000)...) //nolint:mnd // too large for a script's answer
		}
	case n < 35:
		s.Op, s.Failure = store.OpFail, failure
	case n < 65:
		s.Op, s.Failure, s.Delay, s.Refund = store.OpRelease, failure, max(0,
			c.ms(-30, 40)), c.rand.IntN(3) == 0
	default:
		s.Op, s.Lease = store.OpExtend, c.ms(1, 120)
	}
	return s
}

// held returns a claim of the key: mostly the last one, nil if there is none.
func (c *client) held(k *key) *store.Entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch n := len(k.held); {
	case n == 0:
		return nil
	case c.rand.IntN(5) == 0:
		return &k.held[c.rand.IntN(n)]
	default:
		return &k.held[n-1]
	}
}

func (c *client) get(ctx context.Context) {
	keys, ops := c.pick(c.rand, 1), []operation{{get: true}}
	c.call(keys, ops, func() {
		e, err := c.Store.Get(ctx, keys[0].name)
		if ops[0].errorAnswer(err, gotFound); err == nil {
			ops[0].entry = &e
		}
	})
}

func (c *client) remove(ctx context.Context) {
	keys := c.pick(c.rand, 1)
	token := int64(1)
	if held := c.held(keys[0]); held != nil {
		token = held.Token
	}
	ops := []operation{{remove: &token}}
	c.call(keys, ops, func() { ops[0].errorAnswer(c.Store.Delete(ctx, keys[0].name, token), gotDone) })
}

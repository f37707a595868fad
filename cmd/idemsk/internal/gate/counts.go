package gate

import "maps"

// Counts are the requests that passed.
type Counts struct {
	// Requests counts them by what they were for, as "idemsk PutItem" or "ledger UpdateItem".
	Requests map[string]int
	// FreshKeys are keys that a delivery claimed first and completed; FreshRequests are what that took, on the table of keys.
	FreshKeys, FreshRequests int
	// KnownKeys are keys that a delivery found settled; KnownRequests are what that took.
	KnownKeys, KnownRequests int
	Completions              int // keys that became COMPLETED
	Effects                  int // changes of the ledger
}

type counts struct {
	total    Counts
	keys     map[string]keyCount // since the delivery began
	delivery Delivery
}

// Delivery is what one delivery did.
type Delivery struct {
	Completions int // keys that it completed
	Effects     int // changes of the ledger
}

// keyCount is what a delivery asked about one key.
type keyCount struct {
	requests  int
	claimed   bool // by the first request, a PutItem that found no item
	updated   bool // by any request
	completed bool
}

// note counts a request, when it has been answered.
func (g *Gate) note(p *process, r *request, ok bool) {
	completes := ok && r.TableName == g.cfg.Table && r.completes()
	g.mu.Lock()
	defer g.mu.Unlock()
	switch r.TableName {
	case g.cfg.Table:
		g.counts.add("idemsk "+r.Operation, r, ok, completes)
	case g.cfg.Ledger:
		g.counts.request("ledger " + r.Operation)
		if ok && r.Operation == "UpdateItem" {
			g.counts.total.Effects++
			g.counts.delivery.Effects++
		}
	}
	if completes && g.cfg.Protected {
		p.open--
		g.killIfDue(p)
	}
}

func (c *counts) request(name string) {
	if c.total.Requests == nil {
		c.total.Requests = make(map[string]int)
	}
	c.total.Requests[name]++
}

func (c *counts) add(name string, r *request, ok, completes bool) {
	c.request(name)
	k := c.keys[r.key()]
	k.claimed = k.claimed || k.requests == 0 && r.Operation == "PutItem" && ok
	k.updated = k.updated || ok
	k.completed = k.completed || completes
	k.requests++
	if c.keys == nil {
		c.keys = make(map[string]keyCount)
	}
	c.keys[r.key()] = k
	if completes {
		c.delivery.Completions++
		c.total.Completions++
	}
}

// EndDelivery closes the count of a delivery. cut says that the process ended in the middle of it, so that what a key took
// is not known.
func (g *Gate) EndDelivery(cut bool) Delivery {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := &g.counts
	for _, k := range c.keys {
		switch {
		case cut:
		case k.claimed && k.completed:
			c.total.FreshKeys++
			c.total.FreshRequests += k.requests
		case !k.updated:
			c.total.KnownKeys++
			c.total.KnownRequests += k.requests
		}
	}
	ended := c.delivery
	c.delivery = Delivery{}
	clear(c.keys)
	return ended
}

// Counts returns the counts so far, of the deliveries that have ended.
func (g *Gate) Counts() Counts {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := g.counts.total
	out.Requests = maps.Clone(out.Requests)
	return out
}

package simulation_test

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// dice makes the decisions of a run. A decision depends on the seed and on its name alone, not on the
// decisions before it, so that it is the same when goroutines run in another order.
type dice uint64

func (d dice) hash(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(strconv.AppendUint(nil, uint64(d), 16)) // never fails
	_, _ = h.Write([]byte(" " + name))
	return h.Sum64()
}

func (d dice) rand(name string) *rand.Rand {
	h := d.hash(name)
	return rand.New(rand.NewPCG(h, uint64(d)))
}

// chance is true with probability p.
func (d dice) chance(p float64, name string) bool { return d.rand(name).Float64() < p }

// between returns a number from least to most.
func (d dice) between(least, most int, name string) int {
	return least + d.rand(name).IntN(most-least+1)
}

func pick[T any](d dice, name string, of ...T) T { return of[d.between(0, len(of)-1, name)] }

// The kinds of faults. Those of requests are injected by link, the others by the event source.
const (
	refused         = "refused"          // the connection is refused
	reset           = "reset"            // it is reset before the request is performed
	lostReply       = "lost-reply"       // it is reset after the request is performed
	silent          = "silent"           // no answer; the request is lost
	silentReply     = "silent-reply"     // no answer; the request is performed
	slow            = "slow"             // the answer takes longer, up to what its sender waits
	late            = "late"             // no answer; the request is performed when its sender has given up
	throttled       = "throttled"        // also a queue that accepts no letter
	internal        = "internal"         // an internal error of the service, before the request is performed
	internalApplied = "internal-applied" // an internal error after it
	conflict        = "conflict"         // a transaction is writing the item
	// some statements of a batch are throttled or conflict, some keys are not read.
	partial        = "partial"
	fullQueue      = "full-queue"      // the queue accepts no letter for some time
	outage         = "outage"          // what the handler needs is down for some time
	storeDown      = "store-down"      // the store does not answer for some time
	registrySilent = "registry-silent" // the schema registry of keys does not answer for some time
	crash          = "crash"           // of a process, before or after one of its requests
	// the requests and replies of a process are held, for longer than its lease.
	pause      = "pause"
	duplicate  = "duplicate"  // a batch is delivered to another process at the same time
	redelivery = "redelivery" // a batch is delivered again though its answer says that it is done
	rebalance  = "rebalance"  // a partition moves to another poller, whatever is in flight
	deployment = "deployment" // processes are replaced by ones with another configuration
)

// requestFaults are the faults of single requests, with the most of a hundred requests that have each.
var requestFaults = []struct {
	kind    string
	percent int
}{
	{refused, 4}, {reset, 4}, {lostReply, 8}, {silent, 3}, {silentReply, 4}, {slow, 10}, {late, 5},
	{throttled, 8}, {internal, 4}, {internalApplied, 4},
	{conflict, 8}, {partial, 60},
}

// period is a fault that lasts for some time. Times are in ms.
type period struct {
	kind         string
	chance       float64
	from, within int // it begins then or up to so much later
	least, most  int // how long it lasts
	when         needs
}

// storeFaults are what happens to a request while the store is down.
var storeFaults = []string{refused, reset, silent, internal, throttled}

var periods = []period{
	{kind: fullQueue, chance: 0.3, within: 1, least: 1000, most: 30_000},
	{kind: outage, chance: 0.9, within: 10_000, least: 1000, most: 60_000},
	{kind: storeDown, chance: 0.9, from: 500, within: 20_000, least: 500, most: 20_000},
	{kind: registrySilent, chance: 0.9, within: 10_000, least: 1000, most: 30_000,
		when: needs{"registry": {"silent"}}},
}

// fault is an injected fault. Its id is a hash of the seed, the kind and the name.
type fault struct {
	ID   uint64
	Kind string
	Name string
}

func (f fault) String() string { return f.Kind + " of " + f.Name }

// faults decides on faults. In each seed about half of the kinds occur, so that the combinations differ.
type faults struct {
	dice
	only map[uint64]bool // the faults that are left after shrinking, by ID; nil means all

	mu       sync.Mutex
	injected []fault
}

// strikes decides whether a fault occurs, with probability p if its kind occurs in this seed.
func (f *faults) strikes(kind string, p float64, name string) bool {
	if !f.chance(f.of(kind), "kind "+kind) || !f.chance(p, kind+" "+name) {
		return false
	}
	return f.note(kind, name)
}

// of is the probability that a seed has a kind of fault. Pairs of values count only in runs that have a kill,
// an outage and a redelivery.
func (f *faults) of(kind string) float64 {
	switch kind {
	case crash, outage, redelivery, registrySilent:
		return 0.85
	}
	return 0.5
}

// note injects a fault, unless it was left out.
func (f *faults) note(kind, name string) bool {
	one := fault{ID: f.hash(kind + " " + name), Kind: kind, Name: name}
	if f.only != nil && !f.only[one.ID] {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.injected = append(f.injected, one)
	return true
}

// ofRequest returns the kind of the fault of a request, or "".
func (f *faults) ofRequest(name string) string {
	for _, rf := range requestFaults {
		most := float64(rf.percent) / 100
		if f.strikes(rf.kind, f.rand("rate "+rf.kind).Float64()*most, name) {
			return rf.kind
		}
	}
	return ""
}

// scenario is what a run depends on.
type scenario struct {
	Seed    uint64
	order   uint64   // of the goroutines, of select and of maps, and the jitter; 0 means as it happens
	Config  config   // the seed's, unless it was shrunk
	Records int      // the first records of the seed's producers, 0 means all
	Only    []uint64 // the faults that may occur, nil means all

	Careless bool // the handler books outside of the transaction, to test that a run finds it
}

// command returns the command that runs the scenario.
func (s scenario) command() string {
	words := []string{"make simulate SEEDS=" + strconv.FormatUint(s.Seed, 10),
		"CONFIG='" + s.Config.String() + "'"}
	if s.order > 0 {
		words = append(words, "ORDERS="+strconv.FormatUint(s.order, 10))
	}
	if s.Records > 0 {
		words = append(words, "FIRST="+strconv.Itoa(s.Records))
	}
	if s.Only != nil {
		ids := make([]string, 0, len(s.Only)+1)
		for _, id := range s.Only {
			ids = append(ids, strconv.FormatUint(id, 16))
		}
		if len(ids) == 0 {
			ids = append(ids, "none")
		}
		words = append(words, "ONLY="+strings.Join(ids, ","))
	}
	return strings.Join(words, " ")
}

// allowed returns the set of faults that may occur.
func (s scenario) allowed() map[uint64]bool {
	if s.Only == nil {
		return nil
	}
	set := make(map[uint64]bool, len(s.Only))
	for _, id := range s.Only {
		set[id] = true
	}
	return set
}

// idsOf returns the distinct IDs of faults, sorted.
func idsOf(injected []fault) []uint64 {
	ids := make([]uint64, 0, len(injected))
	for _, f := range injected {
		ids = append(ids, f.ID)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

package local

import (
	"cmp"
	"container/list"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/console"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/mskevent"
)

// Bounds of what a recorder keeps.
const (
	maxKeys      = 10_000
	maxEvents    = 100 // of a key
	maxKeysShown = 200
	maxNote      = 400 // bytes of a result or a failure
	// keys that are not settled and are kept longer than settled ones that changed after them.
	maxOpen = 100
)

// keyHistory is a key, and what happened to it.
type keyHistory struct {
	key                       string
	status                    store.Status // "" after it was deleted
	token                     int64
	attempts                  int
	source, note              string
	lease, retry, updated     int64       // microseconds
	holder                    *invocation // that claimed it last; nil if unknown
	steals, refusals, replays int
	events                    []event
	dropped                   int
	place                     *list.Element // in recorder.order
}

// event is a console.Event. Its process is known when its invocation has made a request, or has ended.
type event struct {
	console.Event
	in *invocation
}

// add adds an event. Repeated ones are counted.
func (k *keyHistory) add(e event) {
	e.Times = 1
	if n := len(k.events); n > 0 {
		last := &k.events[n-1]
		if last.Kind == e.Kind && last.in == e.in && last.Process == e.Process && last.Token == e.Token &&
			e.Kind != console.KindDelivered {
			e.Times += last.Times
			*last = e
			return
		}
	}
	if len(k.events) == maxEvents {
		k.events = slices.Delete(k.events, 0, 1)
		k.dropped++
	}
	k.events = append(k.events, e)
}

// delivered notes once that an invocation has a record of the key.
func (k *keyHistory) delivered(in *invocation) {
	if in == nil || in.has[k] {
		return
	}
	in.has[k] = true
	k.add(event{Event: console.Event{At: in.Begun, Kind: console.KindDelivered}, in: in})
}

// Attributes of the items of dynamostore. Another program reads them here, as an operator does.
const (
	attrStatus, attrToken, attrOwner, attrAttempts = "status", "version", "owner", "attempts"
	attrLease, attrRetry, attrSource, attrResult   = "leaseUntil", "retryAt", "source", "responsePayload"
)

// observe notes a write of a key.
func (r *recorder) observe(w *dynamofake.Write) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.Table != r.table {
		if !w.Refused {
			r.armed.written(r.requesting(w.Client))
		}
		return
	}
	r.keyChanges++
	k := r.keyOf(w.Key)
	in := r.requesting(w.Client)
	now := time.Now().UnixMicro()
	if w.Refused {
		k.delivered(in)
		e := k.refused(w, in, now)
		if in == nil {
			e.Process = r.processOf(w.Wanted(attrOwner))
		}
		k.add(e)
		r.locate(w.Wanted(attrSource), k)
		return
	}
	kind := kindOf(w)
	r.count(w)
	k.take(w, now)
	r.order.MoveToBack(k.place)
	r.locate(k.source, k)
	if claims(kind) {
		k.holder = in
	}
	if kind == console.KindStolen {
		k.steals++
	}
	k.delivered(in)
	e := event{in: in, Event: console.Event{At: now, Kind: kind, Token: k.token, Attempts: k.attempts,
		Until: k.until(), Note: k.note}}
	if in == nil {
		e.Process = r.processOf(w.After(attrOwner))
	}
	k.add(e)
	if claims(kind) {
		r.armed.claimed(in, k.key)
	}
}

// count counts the key of a write in the state that it has now, as if no lease were over. These counts have
// all keys, also those whose history is not kept any more.
func (r *recorder) count(w *dynamofake.Write) {
	if before := console.StateOf(store.Status(w.Before(attrStatus)), w.Before(attrRetry) != "",
		false); before != "" {
		r.states[before]--
	}
	if after := console.StateOf(store.Status(w.After(attrStatus)), w.After(attrRetry) != "",
		false); after != "" {
		r.states[after]++
	}
}

func claims(kind string) bool { return kind == console.KindClaimed || kind == console.KindStolen }

// kindOf classifies a write that was performed.
func kindOf(w *dynamofake.Write) string {
	before, after := store.Status(w.Before(attrStatus)), store.Status(w.After(attrStatus))
	switch {
	case !w.Exists():
		return console.KindDeleted
	case after == store.StatusCompleted:
		return console.KindCompleted
	case after == store.StatusFailed:
		return console.KindFailed
	case before != store.StatusStarted:
		return console.KindClaimed
	case w.Before(attrToken) == w.After(attrToken) && w.After(attrRetry) != "":
		return console.KindReleased
	case w.Before(attrToken) == w.After(attrToken):
		return console.KindExtended
	case w.Before(attrRetry) == "":
		return console.KindStolen
	}
	return console.KindClaimed
}

// processOf returns the number of the process of an owner. The names of the owners of a process have the same
// beginning.
func (r *recorder) processOf(owner string) int {
	name, _, ok := strings.Cut(owner, "-")
	if !ok || len(r.owners) >= maxKeys {
		return 0
	}
	if r.owners[name] == 0 {
		r.processes++
		r.owners[strings.Clone(name)] = r.processes
	}
	return r.owners[name]
}

// take takes over the entry that a write left.
func (k *keyHistory) take(w *dynamofake.Write, now int64) {
	k.status, k.updated, k.note = store.Status(w.After(attrStatus)), now, ""
	k.token, k.attempts = number(w.After(attrToken)), int(number(w.After(attrAttempts)))
	if source := w.After(attrSource); source != k.source {
		k.source = strings.Clone(source)
	}
	k.lease, k.retry = number(w.After(attrLease))*1000, number(w.After(attrRetry))*1000 //nolint:mnd // from milliseconds
	switch {
	case k.status == store.StatusCompleted:
		k.note = w.After(attrResult)
	case k.status == store.StatusFailed || k.retry != 0:
		k.note = w.After("failure", "message")
	}
	// not the whole item
	k.note = strings.Clone(strings.ToValidUTF8(k.note[:min(len(k.note), maxNote)], "\uFFFD"))
}

// refused classifies a write that a condition refused: a claim of a key that has an entry, or a settlement of
// an owner that has lost the key.
func (k *keyHistory) refused(w *dynamofake.Write, in *invocation, now int64) event {
	e := event{in: in, Event: console.Event{At: now, Token: k.token, Attempts: k.attempts, Until: k.until()}}
	claim := store.Status(w.Wanted(attrStatus)) == store.StatusStarted && w.Wanted(attrLease) != ""
	switch {
	case !claim:
		e.Kind, e.Token = console.KindFenced, number(w.Wanted(attrToken))
		if e.Token == k.token { // a repeated settlement, or an old extension of the lease
			e.Kind = console.KindRepeated
			return e
		}
		k.refusals++
	case k.status == store.StatusCompleted:
		e.Kind, e.Note = console.KindReplayed, k.note
		k.replays++
	case k.status == store.StatusFailed:
		e.Kind, e.Note = console.KindRepeated, k.note
	default:
		e.Kind = console.KindWaited
	}
	return e
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64) // of another program's item: 0
	return n
}

func (k *keyHistory) until() int64 {
	if k.status != store.StatusStarted {
		return 0
	}
	return cmp.Or(k.retry, k.lease)
}

func (k *keyHistory) state(now int64) string {
	return console.StateOf(k.status, k.retry != 0, k.lease < now)
}

func (k *keyHistory) show(now int64) console.Key {
	return console.Key{
		Key: k.key, State: k.state(now), Token: k.token, Attempts: k.attempts, Source: k.source,
		Outcome: k.note, Until: k.until(), Updated: k.updated,
		Steals: k.steals, Refused: k.refusals, Replays: k.replays,
	}
}

// keyOf returns the history of a key. A new one replaces another if there are maxKeys.
func (r *recorder) keyOf(key string) *keyHistory {
	k := r.keys[key]
	if k == nil {
		key = strings.Clone(key) // which is part of a request's whole body
		k = &keyHistory{key: key}
		if len(r.keys) == maxKeys {
			r.forget()
		}
		r.keys[key], k.place = k, r.order.PushBack(k)
	}
	return k
}

// forget drops the history of the key that did not change for the longest time. Up to maxOpen keys that are
// not settled are kept.
func (r *recorder) forget() {
	oldest := r.order.Front()
	for e, open := oldest, 0; e != nil && open < maxOpen; e, open = e.Next(), open+1 {
		if entryOf(e).status != store.StatusStarted {
			oldest = e
			break
		}
	}
	r.order.Remove(oldest)
	r.forgotten++
	delete(r.keys, entryOf(oldest).key)
}

func entryOf(e *list.Element) *keyHistory { return e.Value.(*keyHistory) } //nolint:errcheck,forcetypeassert // the list has nothing else

// locate notes that the record at a place has a key.
func (r *recorder) locate(source string, k *keyHistory) {
	at := strings.LastIndexByte(source, '@')
	if at < 0 {
		return
	}
	offset, err := strconv.ParseInt(source[at+1:], 10, 64)
	if err != nil {
		return
	}
	place := mskevent.Place{Partition: source[:at], Offset: offset}
	if r.places[place] == k {
		return
	}
	if len(r.places) >= 2*maxKeys { // keys with many records: these are found again when they claim
		clear(r.places)
	}
	place.Partition = strings.Clone(place.Partition)
	r.places[place] = k
}

// Keys implements console.Source.
func (r *recorder) Keys(q console.Query) console.Keys {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now().UnixMicro()
	out := console.Keys{States: maps.Clone(r.states), Forgotten: r.forgotten, Keys: []console.Key{}}
	for e := r.order.Back(); e != nil; e = e.Prev() {
		k := entryOf(e)
		if k.status == "" {
			continue
		}
		state := k.state(now)
		if state == console.LeaseOver {
			out.States[console.Held]--
			out.States[state]++
		}
		if (q.State != "" && q.State != state) || !strings.Contains(k.key, q.Has) {
			continue
		}
		if out.Selected++; out.Selected <= maxKeysShown {
			out.Keys = append(out.Keys, k.show(now))
		}
	}
	return out
}

// History implements console.Source.
func (r *recorder) History(key string) (console.History, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.keys[key]
	if k == nil {
		return console.History{}, false
	}
	h := console.History{Key: k.show(time.Now().UnixMicro()), Dropped: k.dropped, Record: r.recordOf(k)}
	for _, e := range k.events {
		if e.in != nil {
			e.Process, e.Invocation, e.Batch = e.in.Process, e.in.Number, e.in.Batch
		}
		h.Events = append(h.Events, e.Event)
	}
	slices.SortStableFunc(h.Events, func(a, b console.Event) int { return cmp.Compare(a.At, b.At) })
	return h, true
}

//go:build !race

package machine

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// String describes the state, so that two states with one description go on alike.
func (w *world) String() string {
	var d description
	d.put(w.faults.failures, w.faults.silences, w.faults.crashes, w.faults.deliveries, w.faults.stops, w.faults.deadlines)
	for _, key := range slices.Sorted(maps.Keys(w.keys)) {
		state := w.keys[key]
		d.put(key, slices.Index(w.procs, state.owner), state.completed, state.failed, state.attempts)
	}
	for _, p := range w.procs {
		if d.put("\n", p.dead); !p.dead {
			p.describe(&d)
		}
	}
	return string(d)
}

// description is a list of values.
type description []byte

func (d *description) put(values ...any) {
	for _, v := range values {
		switch v := v.(type) {
		case bool:
			*d = strconv.AppendBool(*d, v)
		case int:
			*d = strconv.AppendInt(*d, int64(v), 10)
		case string:
			*d = append(*d, v...)
		default:
			*d = fmt.Append(*d, v)
		}
		*d = append(*d, ' ')
	}
}

func (p *proc) describe(d *description) {
	m := p.m
	d.put("ended", p.ended, p.gone, m.over, "calls", m.calls.running, m.calls.alone, m.calls.bulk, m.calls.open,
		"claims", m.claims.requests, m.claims.releasing, m.claims.failures, m.claims.suspects,
		m.claims.latency.ns.Load() > 0, m.Latency.ns.Load() > 0, "told", len(p.wanted))
	for _, a := range m.alarms {
		if a != &m.claims.sweep {
			d.put("alarm", int(max(0, a.at.Sub(p.world.now))))
		}
	}
	for n, it := range p.items {
		l := it.lane
		d.put(";", n, int(it.phase), int(it.Answer), it.takesOver, it.tries,
			int(max(0, it.notBefore.Sub(p.world.now))), it.unreported, it.removed, it.open, it.returned, it.known,
			it.Again, int(it.End), it.duplicate, len(it.waiting), m.keys[it.key] == it,
			"lane", l.name, int(l.state), len(l.queue), len(l.open), l.running, l.pending, l.sent, l.ahead, l.barred, l.wanted,
			l.listed, l.needs, l.reports.Len(), l.reporting, l.stopped, l.over)
		for _, other := range it.sharers {
			d.put("sharer", slices.Index(p.items, other))
		}
	}
	var jobs []string
	for _, j := range p.jobs {
		var one description
		one.put("job", int(j.Kind), j.running, j.returned, len(j.failed), slices.Index(p.items, j.Item))
		for _, it := range j.Items {
			one.put(slices.Index(p.items, it))
		}
		jobs = append(jobs, string(one))
	}
	slices.Sort(jobs)
	d.put(strings.Join(jobs, ""))
}

// explore visits all states, and returns how many there are and how many steps led to them.
func explore(t *testing.T, of smallWorld) (states, steps int) {
	visited := map[string]bool{}
	frontier := [][]int{nil} // each path is the number of a choice after another
	for len(frontier) > 0 {
		path := frontier[0]
		frontier = frontier[1:]
		w, made := newWorld(of), []choice(nil)
		func() {
			defer func() {
				if v := recover(); v != nil {
					t.Fatalf("%v, after %v\n%v", v, made, w)
				}
			}()
			for _, n := range path {
				c := w.choices()[n]
				made = append(made, c)
				c.do()
			}
			if len(w.choices()) == 0 {
				w.check()
			}
		}()
		steps += min(1, len(path))
		state := w.String()
		if visited[state] {
			continue
		}
		visited[state] = true
		for n := range w.choices() {
			frontier = append(frontier, append(slices.Clone(path), n))
		}
	}
	return len(visited), steps
}

// Every order of answers, and every fault, in small worlds: an item is called after those before it, a key of
// a dead owner is taken over alone, and everything ends.
func TestAllStates(t *testing.T) {
	twoLanes := []message{{"x", "a", 1}, {"x", "b", 1}, {"y", "a", 1}}
	other := []message{{"x", "a", 1}, {"x", "b", 1}, {"y", "b", 1}, {"y", "a", 2}}
	lane := []message{{"x", "a", 1}, {"x", "b", 1}, {"x", "c", 1}}
	lanes := []message{{"x", "a", 1}, {"y", "b", 1}, {"x", "c", 1}, {"x", "d", 1}}
	for _, of := range []smallWorld{
		{"two lanes", twoLanes, false, 0, 1, false, budget{failures: 1, silences: 1}},
		{"two lanes that cross", other, false, 0, 2, false, budget{failures: 1}},
		{"two processes", twoLanes[:2], false, 0, 2, false, budget{crashes: 1, deliveries: 1}},
		{"three processes, of which two die", twoLanes, false, 0, 2, false, budget{crashes: 2}},
		{"a lane that is stopped", other[:3], false, 0, 2, false, budget{failures: 1, stops: 1}},
		{"claims ahead of the handlers of two processes", other[:3], false, 0, 2, true, budget{crashes: 1, deliveries: 1}},
		{"claims ahead of handlers that fail", twoLanes, false, 0, 2, true, budget{failures: 1, stops: 1}},
		{"a lane that is stopped beside dead processes", other[:3], false, 0, 2, false, budget{crashes: 2, stops: 1}},
		{"a batch", twoLanes, true, 0, 2, false, budget{failures: 1, silences: 1}},
		{"a batch whose lanes cross", other, true, 0, 2, false, budget{failures: 1}},
		{"batches of two processes", twoLanes, true, 0, 2, false, budget{crashes: 1, deliveries: 1}},
		{"batches of three processes, of which two die", twoLanes, true, 0, 2, false, budget{crashes: 2}},
		{"a batch whose time ends", twoLanes, true, 0, 2, true, budget{failures: 1, silences: 1, deadlines: 1}},
		{"batches of two processes whose time ends", other[:3], true, 0, 2, true, budget{crashes: 1, deliveries: 1, deadlines: 1}},
		{"a batch for a bulk handler whose time ends", twoLanes, true, 1, 2, false, budget{failures: 1, crashes: 1, deadlines: 1}},
		{"claims ahead of a bulk handler", lane, false, 1, 2, true, budget{failures: 1, crashes: 2}},
		{"a batch for a bulk handler", twoLanes, true, 1, 2, false, budget{failures: 2, silences: 1}},
		{"a batch of a lane for a bulk handler", lane, true, 1, 2, false, budget{failures: 2}},
		{"bulk handlers of two processes", twoLanes, true, 1, 2, false, budget{crashes: 2, deliveries: 1}},
		{"a stream for a bulk handler", twoLanes, false, 1, 2, false, budget{failures: 1, crashes: 2}},
		{"lanes for two calls of a bulk handler", lanes, false, 2, 2, false, budget{failures: 2}},
		{"lanes for two calls of a bulk handler that dies", lanes[:3], false, 2, 2, true, budget{failures: 1, crashes: 2}},
		{"lanes for a bulk handler that are stopped", []message{{"x1", "a", 1}, {"x2", "b", 1}, {"y", "c", 1}}, false,
			1, 2, false, budget{crashes: 1, stops: 1}},
		{"a lane for a bulk handler that is stopped", lane, false, 1, 2, true, budget{failures: 1, stops: 1}},
	} {
		t.Run(of.name, func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			states, steps := explore(t, of)
			t.Logf("%d states, %d transitions in %v", states, steps, time.Since(begun))
		})
	}
}

// While the store does not answer, or another owner has the key, the items behind one that is being handled are
// claimed once, also those that share their key.
func TestClaimsBehindARunningItemAreNotRepeated(t *testing.T) {
	lane := []message{{"x", "a", 1}, {"x", "b", 1}, {"x", "b", 1}, {"x", "c", 1}, {"x", "c", 1}}
	for _, silent := range []bool{true, false} {
		for bulk := range 3 {
			w := newWorld(smallWorld{messages: lane, once: true, bulk: bulk, request: 2, ahead: true})
			other := &proc{world: w}
			w.keys["b"].owner, w.keys["c"].owner = other, other
			p, claims := w.procs[0], 0
			for steps := 0; ; steps++ {
				i := slices.IndexFunc(p.jobs, func(j *job) bool { return j.Kind == DoClaim || !j.running && j.Kind != DoRelease })
				if i < 0 {
					break
				}
				if steps > 100 {
					t.Fatalf("bulk %d, silent %v: claims are sent again and again:\n%v", bulk, silent, w)
				}
				if j := p.jobs[i]; j.Kind == DoClaim {
					claims++
					p.claim(j, silent && claims > 1)
				} else {
					p.call(j)
				}
			}
			equal(t, fmt.Sprintf("bulk %d: handlers that run", bulk), p.m.calls.running, 1)
		}
	}
}

func equal(t *testing.T, what string, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %d; want %d", what, got, want)
	}
}

// walk lets a world go on at random until nothing is left to happen, and returns the number of steps.
func walk(t testing.TB, of smallWorld, seed uint64) (steps int) {
	dice := rand.New(rand.NewPCG(seed, 0))
	w, made := newWorld(of), []choice(nil)
	defer func() {
		if v := recover(); v != nil {
			t.Fatalf("seed %d: %v, after %v\n%v", seed, v, made, w)
		}
	}()
	for all := w.choices(); len(all) > 0; all = w.choices() {
		c := all[dice.IntN(len(all))]
		made = append(made, c)
		c.do()
		steps++
	}
	w.check()
	return steps
}

// mediumWorlds have too many states to visit all.
func mediumWorlds() (all []smallWorld) {
	var messages []message
	for n := range 12 {
		messages = append(messages, message{"x"[:n%2] + string(rune('p'+n%4)), string(rune('a' + n*5%7)), byte(n % 5 / 4)})
	}
	faults := budget{failures: 4, silences: 2, crashes: 2, deliveries: 1, stops: 4, deadlines: 2}
	for _, once := range []bool{false, true} {
		for bulk := range 3 {
			for _, ahead := range []bool{false, true} {
				all = append(all, smallWorld{"medium", messages, once, bulk, 3, ahead, faults})
			}
		}
	}
	return all
}

// Worlds with more items and more faults at once.
func TestRandomWalks(t *testing.T) {
	for _, of := range mediumWorlds() {
		for seed := range uint64(2000) {
			walk(t, of, seed)
		}
	}
}

// BenchmarkMachine reports how many steps of worlds there are in a second.
func BenchmarkMachine(b *testing.B) {
	worlds, steps := mediumWorlds(), 0
	for n := 0; b.Loop(); n++ {
		steps += walk(b, worlds[n%len(worlds)], uint64(n))
	}
	b.ReportMetric(float64(steps)/b.Elapsed().Seconds(), "steps/s")
}

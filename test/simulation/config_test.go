package simulation_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// config is a configuration: the value of each dimension, by name. It has those dimensions whose needs it
// meets.
type config map[string]string

// meets reports whether a configuration has what is needed. It lacks the values of dimensions that it does
// not have.
func (c config) meets(n needs) bool {
	for name, values := range n {
		if !slices.Contains(values, c[name]) {
			return false
		}
	}
	return true
}

// possible returns the values of a dimension that a configuration of the dimensions before it allows; none if
// it does not have the dimension.
func (c config) possible(dim *dimension) (values []string) {
	if !c.meets(dim.when) {
		return nil
	}
	for _, v := range dim.values {
		if c.meets(v.needs) {
			values = append(values, v.text)
		}
	}
	return values
}

// complete returns the configuration with some values, and otherwise the first ones. It returns an error for
// a value that is not possible.
func complete(some map[string]string) (config, error) {
	c := make(config, len(dimensions))
	used := 0
	for i := range dimensions {
		dim := &dimensions[i]
		values := c.possible(dim)
		asked, ok := some[dim.name]
		switch {
		case ok && !slices.Contains(values, asked):
			return nil, fmt.Errorf("%s=%s is not possible here: want one of %q", dim.name, asked, values)
		case ok:
			c[dim.name] = asked
			used++
		case len(values) > 0:
			c[dim.name] = values[0]
		}
	}
	if used < len(some) {
		return nil, fmt.Errorf("%v has a name that is no dimension", some)
	}
	return c, nil
}

// others returns the values that are not the first ones.
func (c config) others() map[string]string {
	some := make(map[string]string)
	for i := range dimensions {
		dim := &dimensions[i]
		if v, ok := c[dim.name]; ok && v != dim.values[0].text {
			some[dim.name] = v
		}
	}
	return some
}

// names returns the names of the dimensions whose values are not the first ones.
func (c config) names() (names []string) {
	some := c.others()
	for i := range dimensions {
		if _, ok := some[dimensions[i].name]; ok {
			names = append(names, dimensions[i].name)
		}
	}
	return names
}

// String returns the values that are not the first ones, as SIMULATE_CONFIG has them.
func (c config) String() string {
	names := c.names()
	words := make([]string, len(names))
	for i, name := range names {
		words[i] = name + "=" + c[name]
	}
	return strings.Join(words, ",")
}

// parseConfig reads what String returns.
func parseConfig(text string) (config, error) {
	some := make(map[string]string)
	for word := range strings.SplitSeq(text, ",") {
		if word == "" {
			continue
		}
		name, v, ok := strings.Cut(word, "=")
		if !ok {
			return nil, fmt.Errorf("%q: want NAME=VALUE", word)
		}
		some[name] = v
	}
	return complete(some)
}

// without returns the configuration with the first value of one dimension, and what follows from it.
func (c config) without(name string) config {
	some := c.others()
	delete(some, name)
	next := make(config, len(c))
	for i := range dimensions {
		dim := &dimensions[i]
		values := next.possible(dim)
		if v, ok := some[dim.name]; ok && slices.Contains(values, v) {
			next[dim.name] = v
		} else if len(values) > 0 {
			next[dim.name] = values[0]
		}
	}
	return next
}

// block is how many seeds, from a multiple of it, have configurations that are made together. Those of the
// blocks with even numbers, from 0, cover all pairs of values. Those of the others have no exceptions: most
// configurations have one, and so check less.
const block = 500

// excepted are values with which less is promised (exceptions).
var excepted = needs{
	"clocks": {"beyond the skew"}, "topic": {"recreated"}, "handler": {"layer"}, "delete entries": {"yes"},
	"IDEMSK_RETENTION": {"20s"}, "IDEMSK_STORE_DOWN": {"open"}, "retries": {"8"}, "record age": {"1m"},
	"offsets": {"forward"},
}

// candidates is how many configurations are compared for each seed.
const candidates = 16

// configs are the configurations of the seeds of a block, made one after another: of some candidates the one
// whose pairs were the rarest before.
type configs struct {
	mu    sync.Mutex
	block uint64
	made  []config
	seen  pairs
}

// of returns the configuration of a seed.
func (cs *configs) of(seed uint64) config {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if b := seed / block; cs.made == nil || b != cs.block {
		cs.block, cs.made, cs.seen = b, nil, newPairs()
	}
	for uint64(len(cs.made)) <= seed%block {
		d := dice(cs.block*block + uint64(len(cs.made)))
		var best config
		most := -1.0
		for i := range candidates {
			c := draw(d, "candidate "+strconv.Itoa(i), cs.block%2 == 1)
			if n := cs.seen.rarity(c); n > most {
				best, most = c, n
			}
		}
		cs.seen.add(best)
		cs.made = append(cs.made, best)
	}
	return cs.made[seed%block]
}

// draw returns a random configuration; a strict one has no excepted values.
func draw(d dice, name string, strict bool) config {
	c := make(config, len(dimensions))
	r := d.rand(name)
	for i := range dimensions {
		values := c.possible(&dimensions[i])
		if strict {
			values = withoutExcepted(values, dimensions[i].name)
		}
		if len(values) > 0 {
			c[dimensions[i].name] = values[r.IntN(len(values))]
		}
	}
	return c
}

// withoutExcepted removes the excepted values of a dimension.
func withoutExcepted(values []string, name string) []string {
	return slices.DeleteFunc(values, func(v string) bool { return slices.Contains(excepted[name], v) })
}

// strict reports whether a configuration has no excepted values.
func (c config) strict() bool {
	for name, values := range excepted {
		if slices.Contains(values, c[name]) {
			return false
		}
	}
	return true
}

// redrawn returns a configuration in which the variables of a deployment that may change have other values. It
// has no excepted values if the present one has none.
func (c config) redrawn(d dice) config {
	next := make(config, len(c))
	strict := c.strict()
	for i := range dimensions {
		dim := &dimensions[i]
		next[dim.name] = c[dim.name]
		values := next.possible(dim)
		if strict {
			values = withoutExcepted(values, dim.name)
		}
		if isVariable(dim.name) && !dim.shared && len(values) > 0 {
			next[dim.name] = pick(d, "redrawn "+dim.name, values...)
		}
	}
	return next
}

// pairs counts how often two values were in one configuration.
type pairs struct {
	number map[string]int // of each value, by its dimension's name and its text
	count  []int
}

func newPairs() pairs {
	p := pairs{number: make(map[string]int)}
	for _, dim := range dimensions {
		for _, v := range dim.values {
			p.number[dim.name+"="+v.text] = len(p.number)
		}
	}
	p.count = make([]int, len(p.number)*len(p.number))
	return p
}

// each calls f with the place of each pair of a configuration.
func (p *pairs) each(c config, f func(place int)) {
	numbers := make([]int, 0, len(c))
	for i := range dimensions {
		if v, ok := c[dimensions[i].name]; ok {
			numbers = append(numbers, p.number[dimensions[i].name+"="+v])
		}
	}
	for i, n := range numbers {
		for _, m := range numbers[:i] {
			f(n*len(p.number) + m)
		}
	}
}

func (p *pairs) add(c config) { p.each(c, func(place int) { p.count[place]++ }) }

// rarity is the greater, the rarer the pairs of a configuration were.
func (p *pairs) rarity(c config) (sum float64) {
	p.each(c, func(place int) {
		n := float64(p.count[place])
		sum += 1 / (1 + n*n*n)
	})
	return sum
}

// missing returns the possible pairs that were in no configuration, and how many are possible.
func (p *pairs) missing() (missing []string, possible int) {
	for i, dim := range dimensions {
		for _, v := range dim.values {
			for j := range i {
				for _, w := range dimensions[j].values {
					if !together(map[string][]string{dim.name: {v.text}, dimensions[j].name: {w.text}}) {
						continue
					}
					possible++
					a, b := dim.name+"="+v.text, dimensions[j].name+"="+w.text
					if p.count[p.number[a]*len(p.number)+p.number[b]] == 0 {
						missing = append(missing, b+" and "+a)
					}
				}
			}
		}
	}
	return missing, possible
}

// together reports whether a configuration can have one of the values of each of these dimensions, by name.
func together(want map[string][]string) bool {
	for changed := true; changed; {
		changed = false
		for i := range dimensions {
			dim := &dimensions[i]
			values, ok := want[dim.name]
			if !ok {
				continue
			}
			left := slices.DeleteFunc(slices.Clone(values),
				func(text string) bool { return !dim.value(text).fits(want) })
			if len(left) == 0 {
				return false
			}
			all := []needs{dim.when}
			if len(left) == 1 {
				all = append(all, dim.value(left[0]).needs)
			}
			more := narrow(want, all)
			changed = changed || more || len(left) < len(values)
			want[dim.name] = left
		}
	}
	return true
}

func (d *dimension) value(text string) *value {
	return &d.values[slices.IndexFunc(d.values, func(v value) bool { return v.text == text })]
}

// fits reports whether the needs of a value can be met by what is left of other dimensions.
func (v *value) fits(left map[string][]string) bool {
	for name, allowed := range v.needs {
		if values, ok := left[name]; ok &&
			!slices.ContainsFunc(values, func(text string) bool { return slices.Contains(allowed, text) }) {
			return false
		}
	}
	return true
}

// narrow leaves only what is needed of other dimensions, and reports whether that is less than before.
func narrow(left map[string][]string, all []needs) (less bool) {
	for _, n := range all {
		for name, allowed := range n {
			before, had := left[name]
			if !had {
				left[name], less = slices.Clone(allowed), true
				continue
			}
			left[name] = slices.DeleteFunc(slices.Clone(before),
				func(text string) bool { return !slices.Contains(allowed, text) })
			less = less || len(left[name]) < len(before)
		}
	}
	return less
}

// The configurations of a block have every pair of values that is possible.
func TestConfigurationsHaveEachPair(t *testing.T) {
	var cs configs
	all := newPairs()
	for seed := range uint64(block) {
		c := cs.of(seed)
		if again, err := parseConfig(c.String()); err != nil || again.String() != c.String() ||
			len(again) != len(c) {
			t.Fatalf("%v is read as %v: %v", c, again, err)
		}
		all.add(c)
	}
	missing, possible := all.missing()
	if len(missing) > 0 || possible < 1000 {
		t.Errorf("%d of %d pairs are missing: %q", len(missing), possible, missing[:min(len(missing), 20)])
	}
}

// A name or a value that is not possible is an error, which names the possible ones.
func TestConfigurationsAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		"host=function,handler=bulk":          "",
		"host=process,handler=bulk":           "",
		"host=process,handler=layer":          "handler=layer is not possible here: want one of [\"record\" \"bulk\" \"bulk that throws\" \"bulk that stops\"]",
		"host=lambda":                         `want one of ["function" "process"]`,
		"hosts=process":                       "no dimension",
		"host":                                "want NAME=VALUE",
		"letters=none,failures=permanent":     "is not possible",
		"IDEMSK_RETRY_DELAY=1s":               "is not possible",
		"redrive=topic,redrive times=twice":   "",
		"redrive=none,redrive times=twice":    "is not possible",
		"IDEMSK_OUTAGE_LIMIT=5m,host=process": "is not possible",
	} {
		_, err := parseConfig(text)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// The configurations of a block with an odd number have no exceptions from what runs check most.
func TestStrictConfigurations(t *testing.T) {
	var cs configs
	for seed := range uint64(block) {
		s := settingsOf(dice(seed), cs.of(block+seed))
		for _, p := range []promise{alone, once, settled} {
			if !s.promises(p) {
				t.Fatalf("%v does not promise that %s", s.config, p)
			}
		}
	}
}

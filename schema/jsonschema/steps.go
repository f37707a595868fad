package jsonschema

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"
)

// DefaultMaxSteps is the default of Format.MaxSteps.
const DefaultMaxSteps = 60_000

// The bound of the work for one value, besides Format.MaxSteps. A schema that refers to one part several
// times at each of some levels takes exponentially many steps. A step is one part of the schema for one part
// of the value: about half a kilobyte of memory and half a microsecond. Large texts and numbers, patterns and
// what is compared take several.
const (
	minSteps     = 20_000
	stepsPerByte = 10 // an element has at least two bytes

	textPerStep    = 512 // bytes that are copied
	numberPerStep  = 32  // digits, also those that the exponent stands for
	patternPerStep = 64  // bytes of a text, for each instruction of a pattern
	itemsPerStep   = 16  // names or indexes of what is not evaluated, which are copied
)

// steps counts the steps of one validation after another.
type steps struct {
	sync.Mutex
	most, taken, limit int
	patterns           time.Duration // that is left for patterns with backtracking
}

// errSteps is the value of a panic, because the library has no other way to end a validation.
var errSteps = errors.New("too many steps")

// begin admits the steps for a value of the given size. The caller has the lock.
func (s *steps) begin(size int) {
	s.taken, s.limit, s.patterns = 0, min(minSteps+stepsPerByte*size, s.most), patternTime
}

// take counts steps.
func (s *steps) take(n int) {
	if s.taken += n; s.taken > s.limit {
		panic(errSteps)
	}
}

// cost is the steps of one part of the schema for a value, without what is in it.
func cost(value any) int {
	switch value := value.(type) {
	case string:
		return 1 + len(value)/textPerStep
	case json.Number:
		digits := len(value)
		if i := strings.IndexAny(string(value), "eE"); i >= 0 {
			exponent, _ := strconv.Atoi(string(value[i+1:])) // checkNumber has read it
			digits += max(exponent, -exponent)
		}
		return 1 + digits/numberPerStep
	}
	return 1
}

// size is the cost of a value with all that is in it.
func size(value any) int {
	n := cost(value)
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			n += cost(name) + size(member)
		}
	case []any:
		for _, item := range value {
			n += size(item)
		}
	}
	return n
}

// work is what one part of a schema does with a value. It counts for the parts within it, too, which can fail
// before they count.
type work struct {
	steps    *steps
	same     int  // parts for the same value, and what it is compared with
	members  int  // parts for each member of an object
	names    bool // parts for their names
	items    int  // parts for each item of a list
	unique   bool // the items are compared with each other
	pattern  int  // the instructions of a pattern for a text
	patterns int  // those for the names of members
	compiled bool // a text is itself a pattern
}

// count counts the work for a value.
func (w *work) count(value any) {
	w.steps.take(w.same * cost(value))
	switch value := value.(type) {
	case map[string]any:
		w.steps.take(len(value) / itemsPerStep)
		for name, member := range value {
			w.steps.take(w.members*cost(member) + w.patterns*len(name)/patternPerStep)
			if w.names {
				w.steps.take(cost(name))
			}
		}
	case []any:
		w.steps.take(len(value) / itemsPerStep)
		for _, item := range value {
			w.steps.take(w.items * cost(item))
			if w.unique {
				w.steps.take(comparisons(len(value), size(item)))
			}
		}
	case string:
		w.steps.take(w.pattern * len(value) / patternPerStep)
		if w.compiled {
			w.steps.take(len(value))
		}
	}
}

// comparisons is the steps to compare an item with the others. The library compares the items of short lists
// one by one, and others by a hash.
func comparisons(items, size int) int {
	const short = 20
	if items <= short {
		return items * size
	}
	return (size + 1) / 2
}

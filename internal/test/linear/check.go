package linear

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// checkLimit bounds the time to check a key.
const checkLimit = time.Minute

// check checks the operations on one key.
func check(ops []operation, skew time.Duration) porcupine.CheckResult {
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{entry{}} },
		Step: func(state, input, _ any) (after []any) {
			before, _ := state.(entry)
			if o, ok := input.(*operation); ok {
				for _, e := range o.step(before, skew) {
					after = append(after, e)
				}
			}
			return after
		},
	}
	return porcupine.CheckOperationsTimeout(model.ToModel(), history(ops), checkLimit)
}

// history returns the operations for porcupine. One without an answer ends after all others, and so do the
// further requests of one that was sent again.
func history(ops []operation) (all []porcupine.Operation) {
	add := func(o *operation) {
		all = append(all, porcupine.Operation{ClientId: o.client, Input: o, Call: o.begun, Return: o.ended})
	}
	for i := range ops {
		o := &ops[i]
		o.overlapped = slices.ContainsFunc(ops, func(p operation) bool {
			return p.begun != o.begun && p.begun < o.ended &&
				(p.ended > o.begun || p.again > 0 || p.answer == gotNothing)
		})
		lost := *o
		lost.answer, lost.entry, lost.ended, lost.now.hi = gotNothing, nil, math.MaxInt64, never
		if o.reads() {
			lost.again = 0
		}
		for range lost.again {
			add(&lost)
		}
		switch {
		case o.answer != gotNothing:
			add(o)
		case !o.reads():
			add(&lost)
		}
	}
	return all
}

// describe lists the operations in the order of their beginnings.
func describe(key string, ops []operation) string {
	slices.SortFunc(ops, func(a, b operation) int { return cmp.Compare(a.begun, b.begun) })
	var text strings.Builder
	fmt.Fprintf(&text, "the operations on %s have no order in which all answers are right:\n", key)
	for i := range ops {
		fmt.Fprintf(&text, "%s\n", &ops[i])
	}
	return text.String()
}

package consumer

import "testing"

// An earlier end of a partition counts if the next survey finds it too, and nothing was read meanwhile.
func TestEndOfAPartition(t *testing.T) {
	for name, steps := range map[string][][2]int64{ // what a survey finds, and the end then
		"the brokers lost records":                {{100, 100}, {80, 100}, {80, 80}, {85, 85}},
		"a former leader answers once":            {{100, 100}, {80, 100}, {110, 110}, {105, 110}},
		"records come between two of its answers": {{100, 100}, {80, 100}, {120, 120}, {90, 120}, {130, 130}},
		"the partition is empty":                  {{0, 0}, {0, 0}},
	} {
		p := partition{end: -1, beyond: -1}
		for n, step := range steps {
			if p.endsAt(step[0]); p.end != step[1] {
				t.Errorf("%s, survey %d: the end is %d; want %d", name, n, p.end, step[1])
			}
		}
	}
}

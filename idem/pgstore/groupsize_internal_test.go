package pgstore

import (
	"testing"

	"github.com/idemsk/idemsk/internal/network/silence"
)

func TestGroupSize(t *testing.T) {
	var g groupSize
	for i, of := range []struct {
		n    int
		err  error
		want int
	}{
		{100, nil, 100},
		{100, new(silence.Error), 50},
		{50, new(silence.Error), 25},
		{3, nil, 25}, // it says nothing about larger ones
		{3, new(silence.Error), 1},
		{1, new(silence.Error), 1},
		{1, nil, 2},
		{2, nil, 4},
		{4, nil, 8},
	} {
		if g.answered(of.n, of.err); g.size() != of.want {
			t.Fatalf("%d: after a group of %d and %v: %d, want %d", i, of.n, of.err, g.size(), of.want)
		}
	}
}

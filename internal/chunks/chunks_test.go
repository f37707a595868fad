package chunks_test

import (
	"slices"
	"testing"

	"github.com/idemsk/idemsk/internal/chunks"
)

func TestChunksHaveNeitherTooManyElementsNorTooManyBytes(t *testing.T) {
	const half = chunks.MaxBytes / 2
	for name, tc := range map[string]struct {
		sizes []int
		want  [][2]int
	}{
		"none":                    {nil, nil},
		"as many as there may be": {[]int{1, 1, 1}, [][2]int{{0, 3}}},
		"one too many":            {[]int{1, 1, 1, 1}, [][2]int{{0, 3}, {3, 4}}},
		"as large as they may be": {[]int{half, half, 1}, [][2]int{{0, 2}, {2, 3}}},
		"too large":               {[]int{half, half + 1, 1}, [][2]int{{0, 1}, {1, 3}}},
		"one that is too large":   {[]int{1, 3 * half, 1, 1}, [][2]int{{0, 1}, {1, 2}, {2, 4}}},
		"elements without a size": {[]int{0, 0, 0, 0, 0, 0, 0}, [][2]int{{0, 3}, {3, 6}, {6, 7}}},
	} {
		var got [][2]int
		for from, to := range chunks.Of(len(tc.sizes), 3, func(i int) int { return tc.sizes[i] }) {
			got = append(got, [2]int{from, to})
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestChunksEndWhenTheCallerDoes(t *testing.T) {
	for from := range chunks.Of(10, 3, func(int) int { return 1 }) {
		if from > 0 {
			t.Error("a second chunk")
		}
		break
	}
}

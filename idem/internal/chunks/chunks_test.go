package chunks_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem/internal/chunks"
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

func TestEachRunsALimitedNumberAtATime(t *testing.T) {
	for n, want := range map[int]time.Duration{0: 0, 1: time.Second, 3: time.Second, 4: 2 * time.Second,
		7: 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			done := make([]atomic.Int32, n)
			begun := time.Now()
			chunks.Each(n, 3, func(i int) {
				<-time.After(time.Second)
				done[i].Add(1)
			})
			if took := time.Since(begun); took != want {
				t.Errorf("%d calls took %v, want %v", n, took, want)
			}
			for i := range done {
				if done[i].Load() != 1 {
					t.Errorf("f(%d) was called %d times", i, done[i].Load())
				}
			}
		})
	}
}

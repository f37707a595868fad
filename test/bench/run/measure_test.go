//go:build linux

package main

import (
	"testing"
	"time"
)

func TestSummaryTakesMediansAndTheMostRequests(t *testing.T) {
	ms := time.Millisecond
	got := summary([]sample{
		{wall: 100 * ms, cpu: 10 * ms, serverCPU: 50 * ms, used: used{80, 2500, 500}},
		{wall: 50 * ms, cpu: 30 * ms, serverCPU: 50 * ms, used: used{90, 2000, 1000}},
		{wall: 900 * ms, cpu: 20 * ms, serverCPU: 90 * ms, used: used{85, 1000, 0}},
	}, records)
	if want := (figures{PerSecond: 10000, CPU: 20, Requests: 0.09, WriteUnits: 2.5, ReadUnits: 1,
		ServerBusy: 0.5, Spread: 8.5}); got != want {
		t.Errorf("summary: %+v; want %+v", got, want)
	}
}

func TestMedian(t *testing.T) {
	for _, tc := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{8, 1, 2, 4}, 3}} {
		if got := median(tc.values); got != tc.want {
			t.Errorf("median(%v) = %v; want %v", tc.values, got, tc.want)
		}
	}
}

func TestTurnsAreSpreadEvenly(t *testing.T) {
	const rounds = 21
	for _, turns := range []int{1, 3, 20, 21} {
		taken, pause, longest := 0, 0, 0
		for round := range rounds {
			pause++
			if hasTurn(round, rounds, turns) {
				longest = max(longest, pause)
				taken, pause = taken+1, 0
			}
		}
		longest = max(longest, pause+1) // the next one would be in the next round at the earliest
		if taken != turns || longest > (rounds+turns-1)/turns {
			t.Errorf("%d of %d turns were taken, at most %d rounds apart", taken, turns, longest)
		}
	}
}

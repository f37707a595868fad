//go:build linux

package main

import (
	"math"
	"strings"
	"testing"
)

// aRun returns a run in which idemsk just reaches everything.
func aRun() *report {
	peers := func(at string) series {
		duplicates := func(perSecond, requests float64) *figures {
			return &figures{PerSecond: perSecond, CPU: 15, Requests: requests}
		}
		return series{Name: at, Load: "0.01 0.02 0.03", Results: []result{
			{Peer: batchedByKey, Fresh: figures{PerSecond: 21000, CPU: 26, Requests: 0.082, Spread: 0.1},
				Duplicates: duplicates(40000, 0.02), PeakMemory: 40 << 20},
			{Peer: batchedByPartition, Fresh: figures{PerSecond: 20000, CPU: 26, Requests: 0.082, WriteUnits: 2,
				ReadUnits: 0.5},
				Duplicates: duplicates(40000, 0.02)},
			{Peer: plain, Fresh: figures{PerSecond: 2500, CPU: 200, Requests: 2},
				Duplicates: duplicates(5000, 1)},
			{Peer: theFloor, Fresh: figures{PerSecond: 24000, CPU: 20, Requests: 0.08, ServerBusy: 0.3},
				ServerCPU: 150},
			{Peer: goAtOnce, Fresh: figures{PerSecond: 3000, CPU: 130, Requests: 2},
				Duplicates: duplicates(6000, 1), ServerCPU: 20},
			{Peer: goByPartition, Fresh: figures{PerSecond: 1000, CPU: 200, Requests: 2},
				Duplicates: duplicates(2000, 1)},
			{Peer: goOneByOne, Fresh: figures{PerSecond: 100, CPU: 300, Requests: 2},
				Duplicates: duplicates(200, 1)},
			{Peer: pythonAsync, Fresh: figures{PerSecond: 700, CPU: 1500, Requests: 2},
				Duplicates: duplicates(1100, 1)},
			{Peer: typeScript, Fresh: figures{PerSecond: 1050, CPU: 900, Requests: 2},
				Duplicates: &figures{PerSecond: 2100, CPU: 500, Requests: 1, ServerBusy: 0.35}},
			{Peer: consumerProcess, Fresh: figures{PerSecond: 21000, CPU: 40, Requests: 0.082},
				Duplicates: duplicates(40000, 0.04)},
			{Peer: pollLoop, Fresh: figures{PerSecond: 3000, CPU: 200, Requests: 2},
				Duplicates: duplicates(6000, 1)},
			{Peer: of100(nodeService), Fresh: figures{PerSecond: 2000}},
			{Peer: of100(nodeFunction), Fresh: figures{PerSecond: 2100}},
			{Peer: kafkaJS, Fresh: figures{PerSecond: 200}},
			{Peer: of100(pythonService), Fresh: figures{PerSecond: 1100}},
			{Peer: of100(pythonFunction), Fresh: figures{PerSecond: 1000}},
			{Peer: kafkaPython, Fresh: figures{PerSecond: 100}},
			{Peer: of100(layeredPython), Fresh: figures{PerSecond: 14000, CPU: 60, Requests: 0.086},
				Duplicates: duplicates(30000, 0.04)},
			{Peer: of100(layeredTypeScript), Fresh: figures{PerSecond: 10500, CPU: 60, Requests: 0.086},
				Duplicates: duplicates(30000, 0.04)},
			{Peer: layeredPython, Fresh: figures{PerSecond: 2800}},
			{Peer: layeredTypeScript, Fresh: figures{PerSecond: 2100}},
			{Peer: batchedFewKeys, Fresh: figures{PerSecond: 21000, CPU: 26, Requests: 0.082},
				Duplicates: duplicates(40000, 0.02)},
		}}
	}
	return &report{
		Machine: machine{Cores: 2, CPU: "A <Processor>", Date: "2026-01-01"}, Options: "21 repetitions",
		ColdStarts: map[string]float64{batchedByKey: 20, goAtOnce: 18},
		Series:     []series{peers(fiveMS), peers(noLatency)},
	}
}

func TestARunThatReachesEverythingPassesEveryBar(t *testing.T) {
	for _, b := range aRun().bars() {
		if b.verdict() != "pass" {
			t.Errorf("%s: %s with %v, wanted %s", b.what, b.verdict(), b.figure, b.wanted())
		}
	}
}

func TestEachBarFallsShortByItsOwnFigure(t *testing.T) {
	change := func(f func(r *result), peers ...string) func(*report) {
		return func(rep *report) {
			for _, p := range peers {
				f(rep.result(fiveMS, p))
			}
		}
	}
	tests := []struct {
		what   string // is contained in the bars that fall short, and in no other
		change func(*report)
	}{
		{"requests per fresh record, batched",
			change(func(r *result) { r.Fresh.Requests = 0.091 }, batchedByKey)},
		{"requests per duplicate, batched",
			change(func(r *result) { r.Duplicates.Requests = 0.061 }, batchedByKey)},
		{"requests per fresh record, batching off",
			change(func(r *result) { r.Fresh.Requests = 2.001 }, plain)},
		{"requests per duplicate, batching off",
			change(func(r *result) { r.Duplicates.Requests = 1.001 }, plain)},
		{", over " + pythonAsync, change(func(r *result) { r.Fresh.PerSecond = 701 }, pythonAsync)},
		{", over " + typeScript, change(func(r *result) { r.Fresh.PerSecond = 1051 }, typeScript)},
		{"Python behind the layer, 100", change(func(r *result) { r.Fresh.PerSecond = 13999 }, of100(layeredPython))},
		{"TypeScript behind the layer, 100", change(func(r *result) { r.Fresh.PerSecond = 10499 },
			of100(layeredTypeScript))},
		{"Python behind the layer, a record", change(func(r *result) { r.Fresh.PerSecond = 2799 }, layeredPython)},
		{"TypeScript behind the layer, a record", change(func(r *result) { r.Fresh.PerSecond = 2099 }, layeredTypeScript)},
		{"requests per fresh record, behind the layer",
			change(func(r *result) { r.Fresh.Requests = 0.091 }, of100(layeredPython))},
		{"requests per fresh record, behind the layer",
			change(func(r *result) { r.Fresh.Requests = 0.091 }, of100(layeredTypeScript))},
		{"requests per duplicate, behind the layer",
			change(func(r *result) { r.Duplicates.Requests = 0.061 }, of100(layeredPython))},
		{"requests per duplicate, behind the layer",
			change(func(r *result) { r.Duplicates.Requests = 0.061 }, of100(layeredTypeScript))},
		{", over " + goAtOnce, change(func(r *result) { r.Fresh.PerSecond = 3001 }, goAtOnce)},
		{"32 Kafka keys", change(func(r *result) { r.Fresh.PerSecond = 20900 }, batchedFewKeys)},
		{"32 at once", change(func(r *result) { r.Fresh.PerSecond = 20900 }, batchedByKey)},
		{"requests per fresh record, consumer process",
			change(func(r *result) { r.Fresh.Requests = 0.091 }, consumerProcess)},
		{", over " + pollLoop, change(func(r *result) { r.Fresh.PerSecond = 3001 }, pollLoop)},
		{", over " + kafkaJS, change(func(r *result) { r.Fresh.PerSecond = 201 }, kafkaJS)},
		{"idemsk-consumer with Node.js", change(func(r *result) { r.Fresh.PerSecond = 1999 }, of100(nodeFunction))},
		{", over " + kafkaPython, change(func(r *result) { r.Fresh.PerSecond = 101 }, kafkaPython)},
		{"idemsk-consumer with Python", change(func(r *result) { r.Fresh.PerSecond = 999 }, of100(pythonService))},
		{"partition order, over ", change(func(r *result) { r.Fresh.PerSecond = 19999 }, batchedByPartition)},
		{"CPU per record over " + goAtOnce, change(func(r *result) { r.Fresh.CPU = 129 }, goAtOnce)},
		{"wall time over the floor", change(func(r *result) { r.Fresh.PerSecond = 24200 }, theFloor)},
		{"CPU over the floor", change(func(r *result) { r.Fresh.CPU = 19.9 }, theFloor)},
		{"cold start", func(rep *report) { rep.ColdStarts[batchedByKey] = 21.7 }},
	}
	tested := make(map[string]bool)
	for _, tc := range tests {
		rep := aRun()
		tc.change(rep)
		for _, b := range rep.bars() {
			want := "pass"
			if strings.Contains(b.what, tc.what) {
				want, tested[b.what] = "falls short", true
			}
			if b.verdict() != want {
				t.Errorf("after the change of %q, %q: %s with %v, want %s", tc.what, b.what, b.verdict(),
					b.figure, want)
			}
		}
	}
	if got, want := len(tested), len(aRun().bars()); got != want {
		t.Errorf("%d bars are tested; there are %d", got, want)
	}
}

func TestWhatWasNotMeasuredNeitherPassesNorFallsShort(t *testing.T) {
	rep := aRun()
	rep.Series[0].Results[0].Duplicates = nil
	rep.Series[0].Results = rep.Series[0].Results[:3]
	rep.ColdStarts = nil
	got := make(map[string]int)
	for _, b := range rep.bars() {
		got[b.verdict()]++
	}
	if got["pass"] != 3 || got["not measured"] != 22 {
		t.Errorf("verdicts: %v; want 3 pass and 22 not measured", got)
	}
	for _, b := range (&report{}).bars() {
		if b.measured() {
			t.Errorf("a run that measured nothing says of %q: %v", b.what, b.figure)
		}
	}
	if !math.IsNaN((&report{}).coldStart(plain)) {
		t.Error("a cold start that was not measured has a figure")
	}
}

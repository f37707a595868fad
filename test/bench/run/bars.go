//go:build linux

package main

import (
	"fmt"
	"math"
)

// bar is a limit that idemsk must meet.
type bar struct {
	what   string
	figure float64
	limit  float64
	atMost bool
	unit   string
}

func (b *bar) pass() bool {
	if b.atMost {
		return b.figure <= b.limit
	}
	return b.figure >= b.limit
}

// measured reports whether all that the figure needs was measured.
func (b *bar) measured() bool { return !math.IsNaN(b.figure) }

func (b *bar) verdict() string {
	switch {
	case !b.measured():
		return "not measured"
	case b.pass():
		return "pass"
	}
	return "falls short"
}

func (b *bar) wanted() string {
	word := "at least"
	if b.atMost {
		word = "at most"
	}
	return fmt.Sprintf("%s %s", word, number(b.limit, b.unit))
}

func number(v float64, unit string) string { return fmt.Sprintf("%.4g%s", v, unit) }

// bars compares what was measured in one run. What was not measured has no figure.
func (rep *report) bars() []bar {
	at := func(peerName string) *result { return rep.result(fiveMS, peerName) }
	times := func(what string, ours *result, theirs string, limit float64) bar {
		return bar{what: what, figure: ours.Fresh.PerSecond / at(theirs).Fresh.PerSecond, limit: limit,
			unit: " times"}
	}
	inPython, inTypeScript := at(of100(layeredPython)), at(of100(layeredTypeScript))
	batched, fewKeys, plainPath, loop, floor := at(batchedByKey), at(batchedFewKeys), at(plain), at(goAtOnce),
		at(theFloor)
	return []bar{
		{what: "requests per fresh record, batched", figure: batched.Fresh.Requests, limit: 0.09,
			atMost: true},
		{what: "requests per duplicate, batched", figure: batched.again().Requests, limit: 0.06,
			atMost: true},
		{what: "requests per fresh record, batching off", figure: plainPath.Fresh.Requests, limit: 2,
			atMost: true},
		{what: "requests per duplicate, batching off", figure: plainPath.again().Requests, limit: 1,
			atMost: true},
		times("records/s, 32 Kafka keys, over "+pythonAsync, fewKeys, pythonAsync, 30),
		times("records/s, 32 Kafka keys, over "+typeScript, fewKeys, typeScript, 20),
		times("records/s, 32 Kafka keys, over "+goAtOnce, fewKeys, goAtOnce, 7),
		times("records/s, 1,000 Kafka keys, 32 at once, over "+pythonAsync, batched, pythonAsync, 30),
		times("records/s, 1,000 Kafka keys, 32 at once, over "+typeScript, batched, typeScript, 20),
		times("records/s, 1,000 Kafka keys, 32 at once, over "+goAtOnce, batched, goAtOnce, 7),
		times("records/s, partition order, over "+goByPartition, at(batchedByPartition), goByPartition, 20),
		{what: "requests per fresh record, consumer process", figure: at(consumerProcess).Fresh.Requests,
			limit: 0.09, atMost: true},
		times("records/s, consumer process, over "+pollLoop, at(consumerProcess), pollLoop, 7),
		times("records/s, idemsk-consumer with Node.js, over "+kafkaJS,
			slower(at(of100(nodeService)), at(of100(nodeFunction))), kafkaJS, 10),
		times("records/s, idemsk-consumer with Python, over "+kafkaPython,
			slower(at(of100(pythonService)), at(of100(pythonFunction))), kafkaPython, 10),
		times("records/s, Python behind the layer, a record in a call, over "+pythonAsync, at(layeredPython), pythonAsync, 4),
		times("records/s, TypeScript behind the layer, a record in a call, over "+typeScript, at(layeredTypeScript), typeScript, 2),
		times("records/s, Python behind the layer, 100 in a call, over "+pythonAsync, inPython, pythonAsync, 20),
		times("records/s, TypeScript behind the layer, 100 in a call, over "+typeScript, inTypeScript, typeScript, 10),
		{what: "requests per fresh record, behind the layer",
			figure: max(inPython.Fresh.Requests, inTypeScript.Fresh.Requests), limit: 0.09, atMost: true},
		{what: "requests per duplicate, behind the layer",
			figure: max(inPython.again().Requests, inTypeScript.again().Requests), limit: 0.06, atMost: true},
		{what: "CPU per record over " + goAtOnce, figure: batched.Fresh.CPU / loop.Fresh.CPU, limit: 0.2,
			atMost: true, unit: " times"},
		{what: "wall time over the floor", figure: floor.Fresh.PerSecond / batched.Fresh.PerSecond,
			limit: 1.15, atMost: true, unit: " times"},
		{what: "CPU over the floor", figure: batched.Fresh.CPU / floor.Fresh.CPU, limit: 1.3, atMost: true,
			unit: " times"},
		{
			what:   "cold start over " + goAtOnce,
			figure: rep.coldStart(batchedByKey) / rep.coldStart(goAtOnce),
			limit:  1.2, atMost: true, unit: " times",
		},
	}
}

// slower returns the one of two results with fewer fresh records a second, or one that was not measured.
func slower(a, b *result) *result {
	if a.Fresh.PerSecond < b.Fresh.PerSecond || math.IsNaN(a.Fresh.PerSecond) {
		return a
	}
	return b
}

// unmeasured are the figures of what was not measured.
func unmeasured() figures {
	nan := math.NaN()
	return figures{PerSecond: nan, CPU: nan, Requests: nan, WriteUnits: nan, ReadUnits: nan, ServerBusy: nan,
		Spread: nan}
}

// result returns what a peer did in a series.
func (rep *report) result(seriesName, peerName string) *result {
	for i := range rep.Series {
		s := &rep.Series[i]
		for j := range s.Results {
			if s.Name == seriesName && s.Results[j].Peer == peerName {
				return &s.Results[j]
			}
		}
	}
	return &result{Peer: peerName, Fresh: unmeasured(), ServerCPU: math.NaN()}
}

// again returns the figures with duplicates.
func (r *result) again() figures {
	if r.Duplicates == nil {
		return unmeasured()
	}
	return *r.Duplicates
}

// coldStart returns a peer's cold start, in ms.
func (rep *report) coldStart(peerName string) float64 {
	if ms, ok := rep.ColdStarts[peerName]; ok {
		return ms
	}
	return math.NaN()
}

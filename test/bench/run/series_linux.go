package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"
)

// series is what all peers did on one server.
type series struct {
	Name    string   `json:"name"`
	Results []result `json:"results"`
	Others  float64  `json:"others"` // cores that were busy with anything else, on average
	Load    string   `json:"load"`   // the machine's load average before
}

// seriesPlan is a series to be measured.
type seriesPlan struct {
	name        string
	latency     latency
	batchedOnly bool
}

// The names of the series, by what the stub waits.
const (
	noLatency  = "0 ms"
	fiveMS     = "5 ms"
	slowBatch  = "5 ms, batches 15 ms"
	localTable = "DynamoDB Local"
)

func theSeries() []seriesPlan {
	const short, long = 5 * time.Millisecond, 15 * time.Millisecond
	return []seriesPlan{
		{name: fiveMS, latency: latency{short, short}},
		{name: slowBatch, latency: latency{short, long}, batchedOnly: true}, // the others are as at 5 ms
		{name: noLatency},
	}
}

func (r *runner) series(ctx context.Context, plan seriesPlan) (series, error) {
	s, err := r.stub(ctx, plan.latency)
	if err != nil {
		return series{}, err
	}
	defer s.stop()
	idle, err := watchOthers(s.process)
	if err != nil {
		return series{}, err
	}
	measured := series{Name: plan.name, Load: loadAverage()}
	fmt.Fprintf(os.Stderr, "%s: load average %s\n", plan.name, measured.Load)
	peers := slices.DeleteFunc(r.chosen(),
		func(p peer) bool { return plan.batchedOnly && !p.batched || p.consumer && plan.name != fiveMS })
	if measured.Results, err = r.contest(ctx, s, peers, r.repetitions); err != nil {
		return series{}, fmt.Errorf("series %s: %w", plan.name, err)
	}
	measured.Others, err = idle()
	progress(&measured)
	return measured, err
}

// chosen returns the peers that are to be measured.
func (r *runner) chosen() []peer {
	return slices.DeleteFunc(r.peers(), func(p peer) bool { return !r.options.peers.MatchString(p.name) })
}

// functions returns the peers that are to be measured, except consumer processes.
func (r *runner) functions() []peer {
	return slices.DeleteFunc(r.chosen(), func(p peer) bool { return p.consumer })
}

func (r *runner) repetitions(p *peer) int {
	if p.slow {
		return r.options.slow
	}
	return r.options.repetitions
}

func progress(s *series) {
	for i := range s.Results {
		res := &s.Results[i]
		fmt.Fprintf(os.Stderr, "%-20s %-50s %8s records/s fresh, %8s duplicates, %6.1f µs CPU\n",
			s.Name, res.Peer, thousands(res.Fresh.PerSecond), thousands(res.again().PerSecond), res.Fresh.CPU)
	}
}

// coldStarts returns the median of each peer, in ms, on a stub without latency.
func (r *runner) coldStarts(ctx context.Context) (map[string]float64, error) {
	s, err := r.stub(ctx, latency{})
	if err != nil {
		return nil, err
	}
	defer s.stop()
	peers := r.functions()
	took := make([][]time.Duration, len(peers))
	for range r.options.coldStarts { // in turn, so that whatever else the machine does meets all of them
		for i := range peers {
			if peers[i].noRepeat {
				continue
			}
			one, err := r.coldStart(ctx, s, &peers[i])
			if err != nil {
				return nil, fmt.Errorf("cold start: %w", err)
			}
			took[i] = append(took[i], one)
		}
	}
	medians := make(map[string]float64)
	for i := range peers {
		if len(took[i]) > 0 {
			medians[peers[i].name] = median(took[i]).Seconds() * 1e3
		}
	}
	return medians, nil
}

// agreement is how the stub compares with DynamoDB Local: what the same deliveries left in the table of each.
type agreement struct {
	Tables    int      `json:"tables"`
	Items     int      `json:"items"`
	Differing []string `json:"differing"` // peers whose tables differ in a key or a status
}

// againstDynamoDBLocal measures all peers on DynamoDB Local, and lets each do the same on the stub.
func (r *runner) againstDynamoDBLocal(ctx context.Context) (series, *agreement, error) {
	local, err := r.dynamoDBLocal(ctx)
	if err != nil {
		return series{}, nil, err
	}
	defer local.stop()
	stub, err := r.stub(ctx, latency{})
	if err != nil {
		return series{}, nil, err
	}
	defer stub.stop()
	idle, err := watchOthers(local.process, stub.process)
	if err != nil {
		return series{}, nil, err
	}
	few := func(p *peer) int { // it takes its time
		if p.slow {
			return 1
		}
		return min(3, r.options.repetitions)
	}
	measured := series{Name: localTable, Load: loadAverage()}
	if measured.Results, err = r.contest(ctx, local, r.functions(), few); err != nil {
		return series{}, nil, fmt.Errorf("on DynamoDB Local: %w", err)
	}
	measured.Others, err = idle()
	if err != nil {
		return series{}, nil, err
	}
	progress(&measured)
	onStub, err := r.contest(ctx, stub, r.functions(), few)
	if err != nil {
		return series{}, nil, err
	}
	agreed := &agreement{Tables: len(onStub), Differing: []string{}}
	for i := range onStub {
		agreed.Items += len(onStub[i].statuses)
		if !maps.Equal(measured.Results[i].statuses, onStub[i].statuses) {
			agreed.Differing = append(agreed.Differing, onStub[i].Peer)
		}
	}
	return measured, agreed, nil
}

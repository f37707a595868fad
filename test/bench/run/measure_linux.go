package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/idemsk/idemsk/test/bench/internal/event"
)

// sample is one delivery of an event.
type sample struct {
	wall, cpu time.Duration
	serverCPU time.Duration
	used
}

// used is what a delivery used of the server.
type used struct {
	requests              int
	writeUnits, readUnits float64 // of DynamoDB's on-demand capacity
}

// figures are what several deliveries come to: medians, but for requests and units, which are the most of
// any.
type figures struct {
	PerSecond  float64 `json:"recordsPerSecond"`
	CPU        float64 `json:"cpuMicrosecondsPerRecord"`
	Requests   float64 `json:"requestsPerRecord"`
	WriteUnits float64 `json:"writeUnitsPerRecord"`
	ReadUnits  float64 `json:"readUnitsPerRecord"`
	ServerBusy float64 `json:"serverBusy"` // share of its core
	Spread     float64 `json:"spread"`     // (slowest-fastest)/median of the wall time
}

// result is what a peer did in a series.
type result struct {
	Peer       string   `json:"peer"`
	Fresh      figures  `json:"fresh"`
	Duplicates *figures `json:"duplicates,omitempty"`
	PeakMemory int64    `json:"peakMemoryBytes"`
	ServerCPU  float64  `json:"serverMicrosecondsPerRequest"`
	statuses   map[string]string
}

// contestant is a peer at work on a server.
type contestant struct {
	*peer
	child        *process
	table        string
	fresh, again []sample
}

// contest lets each peer process a warm-up event, then fresh ones in turn with the others, so that whatever
// else the machine does meets all of them, and then the same ones again.
func (r *runner) contest(ctx context.Context, s *server, peers []peer, repetitions func(*peer) int) ([]result,
	error) {
	contestants := make([]contestant, len(peers))
	defer func() {
		for i := range contestants {
			contestants[i].leave()
		}
	}()
	rounds := 0
	for i := range peers {
		c := &contestants[i]
		c.peer = &peers[i]
		rounds = max(rounds, repetitions(c.peer))
		if err := r.enter(ctx, s, c); err != nil {
			return nil, err
		}
	}
	for _, repeated := range []bool{false, true} {
		for round := range rounds {
			taking := func(c *contestant) bool {
				return hasTurn(round, rounds, repetitions(c.peer)) && (!repeated || !c.noRepeat)
			}
			if err := r.round(ctx, s, contestants, taking, repeated); err != nil {
				return nil, err
			}
		}
	}
	results := make([]result, len(contestants))
	for i := range contestants {
		res, err := contestants[i].finish(ctx, s)
		if err != nil {
			return nil, err
		}
		results[i] = *res
	}
	return results, nil
}

// round gives a turn to each contestant that takes one.
func (r *runner) round(ctx context.Context, s *server, contestants []contestant,
	taking func(*contestant) bool, repeated bool) error {
	for i := range contestants {
		if c := &contestants[i]; taking(c) {
			if err := r.turn(ctx, s, c, repeated); err != nil {
				return err
			}
		}
	}
	return nil
}

// hasTurn reports whether a peer that has so many turns has one in this round: they are spread evenly.
func hasTurn(round, rounds, turns int) bool { return round*turns/rounds != (round+1)*turns/rounds }

// enter starts a contestant and warms it up.
func (r *runner) enter(ctx context.Context, s *server, c *contestant) (err error) {
	if c.table, err = s.table(ctx, c.key); err != nil {
		return err
	}
	if c.child, err = r.start(ctx, s, c.peer, c.table); err != nil {
		return err
	}
	_, err = r.deliver(ctx, s, c.child, c.peer, "warm-up", c.eventRecords())
	return err
}

// turn lets a contestant process its next event, a fresh one or again one that it has processed.
func (r *runner) turn(ctx context.Context, s *server, c *contestant, repeated bool) error {
	samples, handled := &c.fresh, c.eventRecords()
	if repeated {
		samples, handled = &c.again, 0
	}
	one, err := r.deliver(ctx, s, c.child, c.peer, fmt.Sprintf("event-%d", len(*samples)), handled)
	*samples = append(*samples, one)
	return err
}

// leave ends a contestant, in whatever state it is.
func (c *contestant) leave() {
	if c.child != nil {
		c.child.stop()
	}
}

// finish ends a contestant and sums up.
func (c *contestant) finish(ctx context.Context, s *server) (res *result, err error) {
	res = &result{Peer: c.name, Fresh: summary(c.fresh, c.eventRecords())}
	if res.Fresh.Requests > 0 {
		res.ServerCPU = res.Fresh.ServerBusy * 1e6 / (res.Fresh.PerSecond * res.Fresh.Requests)
	}
	if len(c.again) > 0 {
		again := summary(c.again, c.eventRecords())
		res.Duplicates = &again
	}
	if res.PeakMemory, err = c.child.peakMemory(); err != nil {
		return nil, err
	}
	if res.statuses, err = s.statuses(ctx, c.table, c.key); err != nil {
		return nil, err
	}
	return res, c.child.end()
}

// start starts a peer on the last core.
func (r *runner) start(ctx context.Context, s *server, p *peer, table string) (*process, error) {
	env := slices.Concat([]string{
		"AWS_ENDPOINT_URL_DYNAMODB=" + s.url, "AWS_REGION=" + region, "AWS_DEFAULT_REGION=" + region,
		"AWS_EC2_METADATA_DISABLED=true",
		"AWS_ACCESS_KEY_ID=bench", "AWS_SECRET_ACCESS_KEY=bench", "BENCH_TABLE=" + table,
		"IDEMSK_TABLE=" + table, "IDEMSK_NAMESPACE=bench",
	}, p.env)
	return start(ctx, p.name, r.peerCore, r.options.cache, env, p.command)
}

// deliver hands a peer an event, and takes what the delivery costs.
func (r *runner) deliver(ctx context.Context, s *server, child *process, p *peer, name string,
	handled int) (one sample, err error) {
	if err := ctx.Err(); err != nil {
		return one, err
	}
	file, err := r.event(name, p.eventRecords(), p.accounts)
	if err != nil {
		return one, err
	}
	if err := child.load(file); err != nil {
		return one, err
	}
	if err := s.reset(ctx); err != nil {
		return one, err
	}
	before, err := times(child, s.process)
	if err != nil {
		return one, err
	}
	from := time.Now()
	if err := child.run(handled); err != nil {
		return one, err
	}
	one.wall = time.Since(from)
	after, err := times(child, s.process)
	if err != nil {
		return one, err
	}
	one.cpu, one.serverCPU = after[0]-before[0], after[1]-before[1]
	one.used, err = s.used(ctx)
	return one, err
}

func times(processes ...*process) (cpu []time.Duration, err error) {
	for _, p := range processes {
		took, err := p.cpu()
		if err != nil {
			return nil, err
		}
		cpu = append(cpu, took)
	}
	return cpu, nil
}

// event returns the file of an event, which it writes when it is first asked for.
func (r *runner) event(name string, n, accounts int) (string, error) {
	if accounts == 0 {
		accounts = n
	}
	file := filepath.Join(r.options.cache, "events", fmt.Sprintf("%s-%d-%d.json", name, n, accounts))
	if r.written[file] {
		return file, nil
	}
	r.written[file] = true
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return "", err
	}
	return file, os.WriteFile(file, event.New(name, n, accounts), 0o600)
}

// coldStart returns how long it takes from the start of a peer's process to its answer to an event of one
// record.
func (r *runner) coldStart(ctx context.Context, s *server, p *peer) (took time.Duration, err error) {
	file, err := r.event("cold", 1, 1)
	if err != nil {
		return 0, err
	}
	table, err := s.table(ctx, p.key)
	if err != nil {
		return 0, err
	}
	child, err := r.start(ctx, s, p, table)
	if err != nil {
		return 0, err
	}
	defer child.stop()
	if err := child.load(file); err != nil {
		return 0, err
	}
	if err := child.run(1); err != nil {
		return 0, err
	}
	took = time.Since(child.started)
	return took, child.end()
}

// summary sums up deliveries of events with n records.
func summary(samples []sample, n int) figures {
	var walls, cpus []time.Duration
	var busy []float64
	var most used
	for _, one := range samples {
		walls, cpus = append(walls, one.wall), append(cpus, one.cpu)
		busy = append(busy, float64(one.serverCPU)/float64(one.wall))
		most = used{max(most.requests, one.requests), max(most.writeUnits, one.writeUnits),
			max(most.readUnits, one.readUnits)}
	}
	middle := median(walls)
	return figures{
		PerSecond:  float64(n) / middle.Seconds(),
		CPU:        float64(median(cpus).Nanoseconds()) / 1e3 / float64(n),
		Requests:   float64(most.requests) / float64(n),
		WriteUnits: most.writeUnits / float64(n),
		ReadUnits:  most.readUnits / float64(n),
		ServerBusy: median(busy),
		Spread:     float64(slices.Max(walls)-slices.Min(walls)) / float64(middle),
	}
}

func median[T time.Duration | float64](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

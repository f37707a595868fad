// Program run is the benchmark of make bench-peers: it measures idemsk and other libraries with the same
// events and the same DynamoDB, prints the figures and the required limits, and writes them into docs.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// records is how many an event has.
const records = 1000

type options struct {
	programs      string // folder of the Go programs
	cache         string // folder of the peers that were installed, and of what a run writes by the way
	sources       string // folder test/bench/peers
	runtimes      string // folder of AWS's runtime interface clients
	docs          string // folder of performance.md and its plots
	dynamoDBLocal string // localstack/localstack.sh
	repetitions   int    // of fast peers
	slow          int    // of slow peers
	coldStarts    int
	from          string // results to render again, instead of measuring
	only          string // the one series to be measured; empty for all
	peers         *regexp.Regexp
}

// runner is one run of the benchmark.
type runner struct {
	options              options
	serverCore, peerCore int
	written              map[string]bool // files of events
}

func main() {
	var o options
	flag.StringVar(&o.programs, "programs", "", "the folder of the Go programs")
	flag.StringVar(&o.cache, "cache", "",
		"the folder of the installed peers, and of what is written by the way")
	flag.StringVar(&o.sources, "sources", "test/bench/peers", "the folder of the peers' sources")
	flag.StringVar(&o.runtimes, "runtimes", ".cache/runtimes",
		"the folder of the runtime interface clients that scripts/runtimes.sh installs")
	flag.StringVar(&o.docs, "docs", "docs", "the folder of performance.md and its plots")
	flag.StringVar(&o.dynamoDBLocal, "dynamodb-local", "localstack/localstack.sh",
		"what starts a DynamoDB Local; empty for none")
	flag.IntVar(&o.repetitions, "repetitions", 21, "deliveries of each kind to a fast peer")
	flag.IntVar(&o.slow, "slow-repetitions", 3, "the same for a peer that takes many seconds")
	flag.IntVar(&o.coldStarts, "cold-starts", 31, "cold starts of each peer")
	flag.StringVar(&o.from, "from", "", "a file of results to be written into docs again, instead of measuring")
	flag.StringVar(&o.only, "series", "",
		"the one series to be measured, such as '5 ms'; the figures are then only printed")
	peers := flag.String("peers", "", "a regular expression for the names of the peers to be measured; the figures are then only printed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	var err error
	if o.peers, err = regexp.Compile(*peers); err == nil {
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-peers:", err)
		os.Exit(1) //nolint:gocritic // stop has nothing left to do
	}
}

func run(ctx context.Context, o options) error {
	rep := new(report)
	if o.from != "" {
		data, err := os.ReadFile(o.from)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(data, rep); err != nil {
			return fmt.Errorf("%s: %w", o.from, err)
		}
		fmt.Print(rep.markdown())
		return rep.write(o.docs)
	}
	if err := o.check(); err != nil {
		return err
	}
	err := measureAll(ctx, o, rep)
	fmt.Print(rep.markdown()) // what there is, if it broke
	if o.partial() || err != nil {
		return err
	}
	data, err := json.MarshalIndent(rep, "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(o.cache, "results.json"), data, 0o600); err != nil {
		return err
	}
	return rep.write(o.docs)
}

// partial reports whether less than the whole comparison is measured, which belongs into no docs.
func (o *options) partial() bool {
	return o.only != "" || o.peers.String() != "" || o.dynamoDBLocal == ""
}

// check returns an error for an unknown series or peer, with the valid names.
func (o *options) check() error {
	names := []string{localTable}
	for _, plan := range theSeries() {
		names = append(names, plan.name)
	}
	r := &runner{options: *o}
	switch {
	case o.only != "" && !slices.Contains(names, o.only):
		return fmt.Errorf("there is no series %q: -series takes '%s'", o.only, strings.Join(names, "', '"))
	case o.only == localTable && o.dynamoDBLocal == "":
		return fmt.Errorf("the series '%s' needs -dynamodb-local, which is empty", localTable)
	case len(r.chosen()) == 0:
		all := make([]string, 0, len(r.peers()))
		for _, p := range r.peers() {
			all = append(all, p.name)
		}
		return fmt.Errorf("no peer's name matches -peers %q: there are '%s'", o.peers,
			strings.Join(all, "', '"))
	}
	return nil
}

func (o *options) wants(seriesName string) bool { return o.only == "" || o.only == seriesName }

func measureAll(ctx context.Context, o options, rep *report) error {
	available, err := cores()
	if err != nil {
		return err
	}
	if len(available) < 2 {
		return errors.New("the benchmark needs two cores, one for the server and one for the peer: give it a second one")
	}
	r := &runner{options: o, serverCore: available[0], peerCore: available[len(available)-1],
		written: make(map[string]bool)}
	rep.Machine = describeMachine(ctx)
	rep.Options = fmt.Sprintf("%d repetitions (%d of slow peers), %d cold starts", o.repetitions, o.slow,
		o.coldStarts)
	return onCore(r.serverCore, func() error { return r.all(ctx, rep) })
}

// all measures every series.
func (r *runner) all(ctx context.Context, rep *report) (err error) {
	if r.options.only == "" {
		if rep.ColdStarts, err = r.coldStarts(ctx); err != nil {
			return err
		}
	}
	for _, plan := range theSeries() {
		if !r.options.wants(plan.name) {
			continue
		}
		measured, err := r.series(ctx, plan)
		if err != nil {
			return err
		}
		rep.Series = append(rep.Series, measured)
	}
	if r.options.dynamoDBLocal == "" || !r.options.wants(localTable) {
		return nil
	}
	local, agreement, err := r.againstDynamoDBLocal(ctx)
	if err != nil {
		return err
	}
	rep.Series, rep.Agreement = append(rep.Series, local), agreement
	return nil
}

func (r *runner) program(name string) string { return filepath.Join(r.options.programs, name) }

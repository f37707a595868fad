package local_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
)

// cpu is the processor time of this process and of the processes that it has waited for.
func cpu(b *testing.B) (sum time.Duration) {
	b.Helper()
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var used syscall.Rusage
		if err := syscall.Getrusage(who, &used); err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
	return sum
}

// tab does what an open tab of a browser does until the context ends: it reads the stream, and gets what its
// view shows when that has changed, at most once in interval.
func tab(ctx context.Context, b *testing.B, page, view string, interval time.Duration) {
	fetch := func(path string) (io.ReadCloser, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, page+path, http.NoBody)
		if err != nil {
			return nil, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		return resp.Body, nil
	}
	stream, err := fetch("api/stream")
	if err != nil {
		b.Error(err)
		return
	}
	defer stream.Close()
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, 1<<20)
	var last time.Time
	for lines.Scan() {
		if lines.Text() == "" || time.Since(last) < interval {
			continue
		}
		last = time.Now()
		if body, err := fetch(view); err == nil {
			_, err = io.Copy(io.Discard, body)
			_ = body.Close()
			if err != nil && !errors.Is(err, context.Canceled) {
				b.Error(err)
			}
		}
	}
}

// BenchmarkPage measures the processor time of a record in a run without a page, with one that is served, and
// with one that is open, in turns: that of the cheapest run of each. The requests of the open tab are
// included.
func BenchmarkPage(b *testing.B) {
	const records = 4000
	modes := []string{"off", "served", "records", "invocations", "ledger"}
	spent := make(map[string]time.Duration)
	for turn := range b.N {
		for n := range modes {
			mode := modes[(turn+n)%len(modes)] // none is always the first, which finds the caches cold
			shown := make(chan string, 1)
			o := benchmarkOptions(records)
			o.Say = func(line string) {
				if at, ok := strings.CutPrefix(line, "Page: "); ok {
					shown <- at
				}
			}
			if mode != "off" {
				o.UI = local.UI{Addr: "127.0.0.1:0"}
			}
			begun := cpu(b)
			ctx, end := context.WithCancel(b.Context())
			var open sync.WaitGroup
			if path, ok := map[string]string{"records": "api/keys", "invocations": "api/invocations",
				"ledger": "api/verdict"}[mode]; ok {
				open.Go(func() { tab(ctx, b, <-shown, path, 0) })
			}
			report, err := local.Run(ctx, o)
			end()
			open.Wait()
			if err != nil || report.Done < records {
				b.Fatalf("%+v, %v", report, err)
			}
			if took := cpu(b) - begun; spent[mode] == 0 || took < spent[mode] {
				spent[mode] = took
			}
		}
	}
	for _, mode := range modes {
		b.ReportMetric(float64(spent[mode].Microseconds())/records, mode+"-µs/record")
		b.ReportMetric(100*float64(spent[mode]-spent["off"])/float64(spent["off"]), mode+"-%")
	}
}

func benchmarkOptions(records int) local.Options {
	o := local.Options{ESM: esm.DefaultConfig(), Partitions: 3, FunctionName: "function",
		Store: local.StoreFake, Seed: 7, Log: io.Discard}
	o.ESM.Topics, o.ESM.ConsumerGroup = []string{"payments"}, "group"
	o.Function, o.Example, o.Produce, o.UntilDrained = "'"+handler+"'", true, records, true
	o.ESM.BatchSize, o.ESM.RetryDelay = 500, time.Millisecond
	o.ESM.FunctionResponseTypes = []string{esm.ReportBatchItemFailures}
	return o
}

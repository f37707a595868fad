//go:build linux

package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// report is all that a run has measured.
type report struct {
	Machine    machine            `json:"machine"`
	Options    string             `json:"options"` // of the command
	ColdStarts map[string]float64 `json:"coldStartMilliseconds"`
	Series     []series           `json:"series"`
	Agreement  *agreement         `json:"agreement,omitempty"`
}

// The lines of performance.md between which the figures are.
const (
	begin = "<!-- figures: make bench-peers writes what is between these two lines -->"
	end   = "<!-- end of figures -->"
)

// write writes the figures into performance.md in the folder docs.
func (rep *report) write(docs string) error {
	page := filepath.Join(docs, "performance.md")
	text, err := os.ReadFile(page) //nolint:gosec // the caller's own folder
	if err != nil {
		return fmt.Errorf("the page that the figures go into: %w", err)
	}
	replaced, err := between(string(text), rep.ofPage())
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(replaced), 0o644) //nolint:gosec // to be read by all
}

// between replaces what is between the two lines of a page.
func between(page, figures string) (string, error) {
	before, rest, ok := strings.Cut(page, begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return "", fmt.Errorf("it lacks the two lines that the figures go between: %s and %s", begin, end)
	}
	return before + begin + "\n\n" + figures + "\n" + end + after, nil
}

// ofPage returns the figures for the page: the series that has the goals. The goals are for the project.
func (rep *report) ofPage() string {
	var b strings.Builder
	rep.writeMachine(&b)
	for i := range rep.Series {
		if rep.Series[i].Name == fiveMS {
			rep.writeSeries(&b, &rep.Series[i])
		}
	}
	return b.String()
}

func (rep *report) writeMachine(b *strings.Builder) {
	m := rep.Machine
	fmt.Fprintf(b, "Taken on %s: %d cores of %s, %s, %s, %s, %s, %s.\n\n", m.Date, m.Cores, m.CPU, m.Kernel,
		m.Go, m.Python, m.Node, rep.Options)
	if rep.disturbed() {
		b.WriteString("**The machine was busy with other things during this run: its figures are not reliable.**\n\n")
	}
}

// markdown returns the figures of a run in Markdown.
func (rep *report) markdown() string {
	var b strings.Builder
	rep.writeMachine(&b)
	writeBars(&b, rep.bars())
	for i := range rep.Series {
		rep.writeSeries(&b, &rep.Series[i])
	}
	rep.writePrices(&b)
	rep.writeStub(&b)
	return b.String()
}

// The prices of a million request units on demand, in us-east-1, in US dollars.
// https://aws.amazon.com/dynamodb/pricing/on-demand/
const (
	writePrice = 0.625
	readPrice  = 0.125
)

// writePrices writes what a million records cost, by the stub's meter of units.
func (rep *report) writePrices(b *strings.Builder) {
	for i := range rep.Series {
		if rep.Series[i].Name != fiveMS {
			continue
		}
		fmt.Fprintf(b, "### Price of a million records\n\nMillions of write and read request units, by the stub's meter, and their price "+
			"at $%.3f and $%.3f a million (on demand, us-east-1).\n\n"+
			"| | write units fresh | read units | price | write units of duplicates | read units | price |\n"+
			"| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n", writePrice, readPrice)
		for n := range rep.Series[i].Results {
			r := &rep.Series[i].Results[n]
			fmt.Fprintf(b, "| %s |", r.Peer)
			for _, f := range []figures{r.Fresh, r.again()} {
				fmt.Fprintf(b, " %s | %s | %s |", cell("%.3f", f.WriteUnits), cell("%.3f", f.ReadUnits),
					cell("$%.2f", f.WriteUnits*writePrice+f.ReadUnits*readPrice))
			}
			b.WriteByte('\n')
		}
		b.WriteByte('\n')
	}
}

func writeBars(b *strings.Builder, bars []bar) {
	b.WriteString("| what it must reach (stub, 5 ms) | figure | wanted | |\n| --- | ---: | ---: | --- |\n")
	for i := range bars {
		one := &bars[i]
		text := "–"
		if one.measured() {
			text = number(one.figure, one.unit)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", one.what, text, one.wanted(), one.verdict())
	}
	b.WriteByte('\n')
}

func (rep *report) writeSeries(b *strings.Builder, s *series) {
	title, counted := "Stub, "+s.Name+" a request", s.Name != localTable
	if !counted {
		title = s.Name
	}
	fmt.Fprintf(b, "### %s\n\n", title)
	b.WriteString("| | records/s fresh | duplicates | requests/record fresh | duplicate | CPU µs/record fresh | duplicate |" +
		" spread | peak memory | cold start |\n" +
		"| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for i := range s.Results {
		r := &s.Results[i]
		again, requests := r.again(), [2]float64{r.Fresh.Requests, r.again().Requests}
		if !counted {
			requests = [2]float64{math.NaN(), math.NaN()}
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %s | %d MB | %s |\n", r.Peer,
			thousands(r.Fresh.PerSecond), thousands(again.PerSecond),
			cell("%.3f", requests[0]), cell("%.3f", requests[1]), cell("%.0f", r.Fresh.CPU),
			cell("%.0f", again.CPU),
			cell("%.0f%%", 100*r.Fresh.Spread), r.PeakMemory>>20, cell("%.0f ms", rep.coldStart(r.Peer)))
	}
	fmt.Fprintf(b, "\nLoad average before it: %s. Other processes kept %.2f cores busy during it", s.Load,
		s.Others)
	if s.disturbed() {
		b.WriteString(", which is too much")
	}
	b.WriteString(".\n\n")
}

// quiet is the maximum number of cores that other processes may keep busy without distorting the figures.
const quiet = 0.1

func (s *series) disturbed() bool { return s.Others > quiet }

func (rep *report) disturbed() bool {
	return slices.ContainsFunc(rep.Series, func(s series) bool { return s.disturbed() })
}

// writeStub writes the capacity of the stub, and how its results compare with DynamoDB Local.
func (rep *report) writeStub(b *strings.Builder) {
	single, batch := rep.result(noLatency, goAtOnce).ServerCPU, rep.result(noLatency, theFloor).ServerCPU
	if !math.IsNaN(single) && !math.IsNaN(batch) {
		fmt.Fprintf(b, "The stub itself takes %.0f µs of its core for a plain request and %.0f µs for a batch of 25 statements: at most %s and %s a second. "+
			"In the series above its core was busy at most %.0f%% of the time with 5 ms, and %.0f%% with 0 ms.",
			single, batch, thousands(1e6/single), thousands(1e6/batch), 100*rep.busiest(fiveMS),
			100*rep.busiest(noLatency))
	}
	if alone := rep.result(fiveMS, goOneByOne).Fresh; !math.IsNaN(alone.PerSecond) {
		fmt.Fprintf(b, " A sequential client observes %.1f ms per request for a latency of 5 ms, including its own overhead.", 1e3/(alone.PerSecond*alone.Requests))
	}
	if a := rep.Agreement; a != nil {
		fmt.Fprintf(b, "\n\nThe stub against DynamoDB Local: after the same deliveries, the tables of %d peers (%s items) ", a.Tables, thousands(float64(a.Items)))
		if len(a.Differing) == 0 {
			b.WriteString("hold the same keys with the same statuses on both.")
		} else {
			fmt.Fprintf(b, "DIFFER for: %s.", strings.Join(a.Differing, "; "))
		}
	}
	b.WriteByte('\n')
}

// busiest returns the largest share of its core that the server of a series needed.
func (rep *report) busiest(name string) (most float64) {
	for i := range rep.Series {
		for _, r := range rep.Series[i].Results {
			if rep.Series[i].Name != name {
				continue
			}
			most = max(most, r.Fresh.ServerBusy)
			if r.Duplicates != nil {
				most = max(most, r.Duplicates.ServerBusy)
			}
		}
	}
	return most
}

// cell formats a value, a dash if it was not measured.
func cell(format string, v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	return fmt.Sprintf(format, v)
}

// thousands writes a whole number with commas, a dash if it was not measured.
func thousands(v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	n := int(math.Round(v))
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return thousands(float64(n/1000)) + fmt.Sprintf(",%03d", n%1000)
}

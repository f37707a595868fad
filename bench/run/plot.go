//go:build linux

package main

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
)

// column is one bar of a plot.
type column struct {
	name  string
	value float64
	ours  bool
}

// plots returns the plots by the names of their files.
func (rep *report) plots() map[string]string {
	take := func(value func(r *result) float64) (columns []column) {
		for i := range rep.Series {
			for j := range rep.Series[i].Results {
				r := &rep.Series[i].Results[j]
				if rep.Series[i].Name == fiveMS {
					columns = append(columns, column{r.Peer, value(r), strings.HasPrefix(r.Peer, "idemsk")})
				}
			}
		}
		return columns
	}
	return map[string]string{
		"performance-throughput.svg": plot("Fresh records a second; stub, 5 ms a request", true,
			take(func(r *result) float64 { return r.Fresh.PerSecond })),
		"performance-cpu.svg": plot("CPU for a fresh record, µs; stub, 5 ms a request", false,
			take(func(r *result) float64 { return r.Fresh.CPU })),
		"performance-requests.svg": plot("Requests for a fresh record", false,
			take(func(r *result) float64 { return r.Fresh.Requests })),
	}
}

// The measures of a plot, in pixels.
const (
	plotWidth  = 860
	labelWidth = 340
	valueWidth = 80
	barHeight  = 18
	rowHeight  = 26
	titleSpace = 44
)

// plot draws horizontal bars on a linear scale from zero, the best first. The colours follow the reader's dark or light mode.
func plot(title string, moreIsBetter bool, columns []column) string {
	slices.SortStableFunc(columns, func(a, b column) int {
		switch {
		case a.value == b.value:
			return 0
		case (a.value > b.value) == moreIsBetter:
			return -1
		}
		return 1
	})
	most := 0.0
	for _, c := range columns {
		most = max(most, c.value)
	}
	height := titleSpace + rowHeight*len(columns) + 8
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">
<style>
text{font:13px system-ui,sans-serif;fill:#24292f}.title{font-weight:600;font-size:15px}.theirs{fill:#8c959f}.ours{fill:#0969da}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.theirs{fill:#6e7681}.ours{fill:#4493f8}}
</style>
<text class="title" x="8" y="24">%[5]s</text>
`, plotWidth, height, plotWidth, height, escaped(title))
	for i, c := range columns {
		y := titleSpace + i*rowHeight
		class := "theirs"
		if c.ours {
			class = "ours"
		}
		length := 0.0
		if most > 0 {
			length = c.value / most * (plotWidth - labelWidth - valueWidth)
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text><rect class="%s" x="%d" y="%d" width="%.1f" height="%d" rx="2"/>`+
			`<text x="%.1f" y="%d">%s</text>`+"\n",
			labelWidth-8, y+14, escaped(c.name), class, labelWidth, y, max(1, length), barHeight, labelWidth+length+6, y+14, figure(c.value))
	}
	return b.String() + "</svg>\n"
}

// figure writes a value with as many digits as tell something.
func figure(v float64) string {
	if v < 10 {
		return fmt.Sprintf("%.2f", v)
	}
	return thousands(v)
}

func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder takes everything
	return b.String()
}

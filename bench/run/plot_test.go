//go:build linux

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestPlotsAreWellFormedAndNameEveryPeer(t *testing.T) {
	rep := aRun()
	for name, svg := range rep.plots() {
		decoder := xml.NewDecoder(strings.NewReader(svg))
		for {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v:\n%s", name, err, svg)
			}
		}
		for _, r := range rep.Series[0].Results {
			if !strings.Contains(svg, ">"+escaped(r.Peer)+"<") {
				t.Errorf("%s lacks %q", name, r.Peer)
			}
		}
		if !strings.Contains(svg, "prefers-color-scheme:dark") {
			t.Errorf("%s has no colours for dark", name)
		}
	}
}

func TestPlotPutsTheBestFirst(t *testing.T) {
	columns := func() []column {
		return []column{{"low", 1, false}, {"high & <mighty>", 2000, true}, {"middle", 3, false}}
	}
	for _, tc := range []struct {
		moreIsBetter bool
		order        []string
	}{
		{true, []string{"high &amp; &lt;mighty&gt;", "middle", "low"}},
		{false, []string{"low", "middle", "high &amp; &lt;mighty&gt;"}},
	} {
		svg := plot("title", tc.moreIsBetter, columns())
		at := -1
		for _, name := range tc.order {
			next := strings.Index(svg, ">"+name+"<")
			if next <= at {
				t.Errorf("more is better: %v: %q is not where it belongs:\n%s", tc.moreIsBetter, name, svg)
			}
			at = next
		}
		if !strings.Contains(svg, ">2,000<") || !strings.Contains(svg, ">3.00<") || strings.Count(svg, `class="ours"`) != 1 {
			t.Errorf("values or colours are missing:\n%s", svg)
		}
	}
}

func TestPlotOfNothing(t *testing.T) {
	for _, columns := range [][]column{nil, {{"zero", 0, false}}} {
		if svg := plot("t", true, columns); strings.Contains(svg, "NaN") {
			t.Errorf("plot of %v:\n%s", columns, svg)
		}
	}
}

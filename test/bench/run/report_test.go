//go:build linux

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestMarkdownHoldsTheFigures(t *testing.T) {
	rep := aRun()
	rep.Series[1].Others = 0.5
	rep.Agreement = &agreement{Tables: 9, Items: 18000}
	rep.Series = append(rep.Series, series{Name: localTable,
		Results: []result{{Peer: plain, Fresh: figures{PerSecond: 500, CPU: 210}}}})
	got := rep.markdown()
	for _, want := range []string{
		"Taken on 2026-01-01: 2 cores of A <Processor>",
		"| records/s, 32 Kafka keys, over " + goAtOnce + " | 7 times | at least 7 times | pass |",
		"### Stub, 5 ms a request\n",
		"| " + batchedByKey + " | 21,000 | 40,000 | 0.082 | 0.020 | 26 | 15 | 10% | 40 MB | 20 ms |\n",
		"| " + theFloor + " | 24,000 | – | 0.080 | – | 20 | – | 0% | 0 MB | – |\n",
		"### DynamoDB Local\n",
		"| " + plain + " | 500 | – | – | – | 210 |",
		"### Price of a million records\n",
		"| " + batchedByPartition + " | 2.000 | 0.500 | $1.31 | 0.000 | 0.000 | $0.00 |\n",
		"0.50 cores busy during it, which is too much",
		"20 µs of its core for a plain request and 150 µs for a batch of 25 statements: at most 50,000 and 6,667 a second",
		"busy at most 35% of the time with 5 ms",
		"A sequential client observes 5.0 ms per request",
		"9 peers (18,000 items) hold the same keys with the same statuses",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the report lacks %q:\n%s", want, got)
		}
	}
	if strings.Count(got, "too much") != 1 || !strings.Contains(got, "not reliable") {
		t.Errorf("one series of three was disturbed:\n%s", got)
	}
	if got := aRun().markdown(); strings.Contains(got, "too much") || strings.Contains(got, "not reliable") {
		t.Errorf("a run on a quiet machine is called unreliable:\n%s", got)
	}
	rep.Agreement.Differing = []string{plain}
	if got := rep.markdown(); !strings.Contains(got, "DIFFER for: "+plain) {
		t.Errorf("the report does not say which tables differ:\n%s", got)
	}
}

func TestAReportOfPartOfTheComparisonSaysNothingOfTheRest(t *testing.T) {
	rep := &report{Series: []series{{Name: fiveMS,
		Results: []result{{Peer: theFloor, Fresh: figures{PerSecond: 24000}}}}}}
	if got := rep.markdown(); strings.Contains(got, "NaN") || !strings.Contains(got, "24,000") {
		t.Errorf("report:\n%s", got)
	}
}

func TestWriteReplacesWhatIsBetweenTheLinesAndNothingElse(t *testing.T) {
	docs := t.TempDir()
	page := filepath.Join(docs, "performance.md")
	if err := os.WriteFile(page, []byte("before\n"+begin+"\nold\n"+end+"\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rep := aRun()
	for range 2 { // a rerun refreshes it
		if err := rep.write(docs); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if want := "before\n" + begin + "\n\n" + rep.ofPage() + "\n" + end + "\nafter\n"; string(text) != want {
		t.Errorf("the page is\n%s\nwant\n%s", text, want)
	}
}

func TestThePageHasTheSeriesWithTheGoalsOnly(t *testing.T) {
	rep := &report{Series: []series{{Name: fiveMS}, {Name: localTable}}}
	if all := rep.markdown(); !strings.Contains(all, fiveMS) || !strings.Contains(all, "### "+localTable) {
		t.Errorf("the output is\n%s\nwant both series", all)
	}
	if page := rep.ofPage(); !strings.Contains(page, fiveMS) || strings.Contains(page, "### "+localTable) ||
		strings.Contains(page, "must reach") {
		t.Errorf("the page is\n%s\nwant only the series of %s, without the goals", page, fiveMS)
	}
}

func TestWriteLeavesAPageWithoutTheLinesAlone(t *testing.T) {
	docs := t.TempDir()
	page := filepath.Join(docs, "performance.md")
	if err := os.WriteFile(page, []byte("text\n"+end+"\n"+begin+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := aRun().write(docs); err == nil || !strings.Contains(err.Error(), page) {
		t.Errorf("error: %v; want one that names %s", err, page)
	}
	files, err := os.ReadDir(docs)
	if err != nil || len(files) != 1 {
		t.Errorf("files: %v, %v; want the page alone", files, err)
	}
}

func TestResultsOutliveJSON(t *testing.T) {
	rep := aRun()
	data, err := json.Marshal(rep)
	if err != nil {
		t.Fatal(err)
	}
	again := new(report)
	if err := json.Unmarshal(data, again); err != nil || !reflect.DeepEqual(again, rep) {
		t.Errorf("%v: got\n%+v\nwant\n%+v", err, again, rep)
	}
}

func TestThousands(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 999.4: "999", 999.5: "1,000", 12034: "12,034",
		1234567: "1,234,567"} {
		if got := thousands(v); got != want {
			t.Errorf("thousands(%v) = %s; want %s", v, got, want)
		}
	}
}

// Package metrics parses the counts of outcomes: those that a function prints for each batch, in CloudWatch's
// embedded metric format, and those that a consumer process serves for Prometheus.
package metrics

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
)

// Outcomes are the counts of a function's batches. The names of the metrics begin with capitals, which
// encoding/json accepts.
type Outcomes struct {
	Executed         int `json:"executed"`
	Replayed         int `json:"replayed"`
	ReplayedFailed   int `json:"replayedFailed"`
	Duplicates       int `json:"duplicates"`
	DeadLettered     int `json:"deadLettered"`
	FailedOpen       int `json:"failedOpen"`
	Retried          int `json:"retried"`
	InFlight         int `json:"inFlight"`
	NotStarted       int `json:"notStarted"`
	CompletionFailed int `json:"completionFailed"`
	StoreDown        int `json:"storeDown"`
	Overruns         int `json:"overruns"`

	Stolen    int `json:"stolen"` // in addition to an outcome, like the counts below
	Fenced    int `json:"fenced"`
	Blocked   int `json:"blocked"`
	Reported  int `json:"reported"`
	BatchSize int `json:"batchSize"`

	HandlerDown       int `json:"handlerDown"`
	FailedCalls       int `json:"failedCalls"`
	FailedCallRecords int `json:"failedCallRecords"`
}

// Add adds other to o.
func (o *Outcomes) Add(other *Outcomes) {
	sums, more := reflect.ValueOf(o).Elem(), reflect.ValueOf(other).Elem()
	for i := range sums.NumField() {
		sums.Field(i).SetInt(sums.Field(i).Int() + more.Field(i).Int())
	}
}

// Sum returns the number of records with an outcome. A fenced record may have no other outcome.
func (o *Outcomes) Sum() (least, most int) {
	n := o.Executed + o.Replayed + o.ReplayedFailed + o.Duplicates + o.DeadLettered + o.FailedOpen +
		o.Retried +
		o.InFlight + o.NotStarted + o.CompletionFailed + o.StoreDown + o.Overruns
	return n, n + o.Fenced
}

// Parse parses a line. It returns false if the line has no embedded metrics.
func Parse(line []byte) (Outcomes, bool) {
	if !bytes.Contains(line, []byte(`"_aws"`)) {
		return Outcomes{}, false
	}
	var metrics struct {
		Outcomes
		AWS *struct{} `json:"_aws"`
	}
	if json.Unmarshal(line, &metrics) != nil || metrics.AWS == nil {
		return Outcomes{}, false
	}
	return metrics.Outcomes, true
}

// ParseText reads the counters that a consumer process serves, in the text format of Prometheus:
// idemsk_dead_lettered_total is DeadLettered.
func ParseText(r io.Reader) (Outcomes, error) {
	counts := make(map[string]int)
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		name, ours := strings.CutPrefix(name, "idemsk_")
		name, counter := strings.CutSuffix(name, "_total")
		if !ours || !counter {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return Outcomes{}, fmt.Errorf("the counter %s is %q: %w", name, value, err)
		}
		// encoding/json matches names regardless of capitals
		counts[strings.ReplaceAll(name, "_", "")] = int(n)
	}
	if err := lines.Err(); err != nil {
		return Outcomes{}, err
	}
	text, err := json.Marshal(counts)
	if err != nil {
		return Outcomes{}, err
	}
	var o Outcomes
	return o, json.Unmarshal(text, &o)
}

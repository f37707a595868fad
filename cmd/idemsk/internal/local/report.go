package local

import (
	"fmt"
	"strings"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// Report is what came of a run.
type Report struct {
	Counts
	Partitions []esm.PartitionState
	Took       time.Duration
	First      time.Duration // from the start of the run to the end of the first invocation; 0 if there was none
	Seed       uint64
	Letters    int // of the function's own, in the queue in this process
}

// Lag is the number of offsets that are not committed.
func (r *Report) Lag() int64 { lag, _ := sums(r.Partitions); return lag }

// Text is the closing table.
func (r *Report) Text() string {
	var b strings.Builder
	for _, line := range partitionLines(r.Partitions) {
		b.WriteString(line + "\n")
	}
	b.WriteString("\n")
	t := countsTable(&r.Counts, r.Took)
	if r.Letters > 0 {
		t.Row("dead letters", term.Plural(r.Letters, "message", "messages")+" in the function's queue")
	}
	b.WriteString(t.String())
	left := "everything is committed"
	if lag := r.Lag(); lag > 0 {
		left = term.Plural(int(lag), "record is", "records are") + " not committed"
	}
	fmt.Fprintf(&b, "\n%s after %s\n", left, r.Took.Round(time.Millisecond))
	return b.String()
}

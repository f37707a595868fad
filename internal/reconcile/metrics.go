package reconcile

import (
	"io"
	"time"

	"github.com/idemsk/idemsk/internal/emf"
)

// WriteMetrics writes the report as one line of CloudWatch's embedded metric format. Took is the duration of
// the run.
func (r *Report) WriteMetrics(w io.Writer, function string, took time.Duration) {
	unfinished := 0
	if r.Unfinished {
		unfinished = 1
	}
	metrics := []emf.Metric{
		emf.Count("KeysRead", r.Records), emf.Count("KeysOverdue", r.Found.Overdue),
		emf.Count("KeysFailed", r.Found.Failed),
		emf.Duration("KeysInProgressAge", r.InProgress), emf.Count("ReconcileUnfinished", unfinished),
		emf.Duration("ReconcileDuration", took),
	}
	if r.compares {
		metrics = append(metrics, emf.Count("ExportRows", r.Rows), emf.Count("ExportMatched", r.Matched),
			emf.Count("ExportDifferences", r.Differences()))
	}
	emf.Write(w, function, time.Now(), metrics...)
}

package reconcile

import (
	"strconv"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/target"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/reconcile"
)

// Line is a line of the reconciliation: an entry of the store, a row of the export, or both.
type Line struct {
	Entry *store.Entry
	Row   *reconcile.Row
}

func entries(list []store.Entry) []Line {
	lines := make([]Line, len(list))
	for i := range list {
		lines[i].Entry = &list[i]
	}
	return lines
}

func rows(list []reconcile.Row) []Line {
	lines := make([]Line, len(list))
	for i := range list {
		lines[i].Row = &list[i]
	}
	return lines
}

func unsettled(list []reconcile.Unsettled) []Line {
	lines := make([]Line, len(list))
	for i := range list {
		lines[i] = Line{Entry: &list[i].Record, Row: &list[i].Row}
	}
	return lines
}

// Group is a kind of entries that an operator should check.
type Group struct {
	What  string
	Found int
	Lines []Line // at most the limit of the report
}

// Groups returns the groups of a report.
func Groups(r *reconcile.Report) []Group {
	return []Group{
		{"overdue", r.Found.Overdue, entries(r.Overdue)},
		{"failed", r.Found.Failed, entries(r.Failed)},
		{"not in the export", r.Found.OnlyInStore, entries(r.OnlyInStore)},
		{"not in the store", r.Found.OnlyInExport, rows(r.OnlyInExport)},
		{"not completed", r.Found.Unsettled, unsettled(r.Unsettled)},
		{"twice in the export", r.Found.Twice, rows(r.Twice)},
	}
}

func (l *Line) cells(what string, now time.Time) []string {
	cells := []string{what, "", "", "", "", "", ""}
	if l.Row != nil {
		cells[1], cells[6] = term.Cut(l.Row.Key, term.KeyWidth), strconv.Itoa(l.Row.Line)
	}
	if entry := l.Entry; entry != nil {
		cells[1], cells[2] = term.Cut(entry.Key, term.KeyWidth), target.Status(entry, now)
		cells[3], cells[4], cells[5] = strconv.Itoa(entry.Attempts), term.Age(entry.UpdatedAt, now),
			entry.Source
	}
	return cells
}

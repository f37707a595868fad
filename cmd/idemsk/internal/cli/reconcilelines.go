package cli

import (
	"strconv"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/reconcile"
)

// recordLine is a line of the reconciliation: a record of the store, a row of the export, or both.
type recordLine struct {
	rec *store.Entry
	row *reconcile.Row
}

func records(recs []store.Entry) []recordLine {
	lines := make([]recordLine, len(recs))
	for i := range recs {
		lines[i].rec = &recs[i]
	}
	return lines
}

func rows(list []reconcile.Row) []recordLine {
	lines := make([]recordLine, len(list))
	for i := range list {
		lines[i].row = &list[i]
	}
	return lines
}

func unsettled(list []reconcile.Unsettled) []recordLine {
	lines := make([]recordLine, len(list))
	for i := range list {
		lines[i] = recordLine{rec: &list[i].Record, row: &list[i].Row}
	}
	return lines
}

// reportGroup is a kind of records that an operator should check.
type reportGroup struct {
	what  string
	found int
	recs  []recordLine // at most the limit of the report
}

func reportGroups(r *reconcile.Report) []reportGroup {
	return []reportGroup{
		{"hangs", r.Found.Overdue, records(r.Overdue)},
		{"failed", r.Found.Failed, records(r.Failed)},
		{"not in the export", r.Found.OnlyInStore, records(r.OnlyInStore)},
		{"not in the store", r.Found.OnlyInExport, rows(r.OnlyInExport)},
		{"not completed", r.Found.Unsettled, unsettled(r.Unsettled)},
		{"twice in the export", r.Found.Twice, rows(r.Twice)},
	}
}

func (l *recordLine) cells(what string, now time.Time) []string {
	cells := []string{what, "", "", "", "", "", ""}
	if l.row != nil {
		cells[1], cells[6] = term.Cut(l.row.Key, keyWidth), strconv.Itoa(l.row.Line)
	}
	if entry := l.rec; entry != nil {
		cells[1], cells[2] = term.Cut(entry.Key, keyWidth), listStatus(entry, now)
		cells[3], cells[4], cells[5] = strconv.Itoa(entry.Attempts), term.Age(entry.UpdatedAt, now), entry.Source
	}
	return cells
}

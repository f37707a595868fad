package pgstore

import (
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/idemsk/idemsk/idem/internal/chunks"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/network/silence"
	"github.com/idemsk/idemsk/internal/pg/pgtrip"
)

// request is statements that are sent in one round trip as one transaction, and how many of them the server has
// executed. So it is known of which one an error is.
type request struct {
	batch pgx.Batch
	steps []step // one for each statement
	done  int
	last  pgconn.CommandTag // of the last statement that was executed
	end   pgconn.CommandTag // of the COMMIT
}

// step says what a statement of a request is.
type step struct {
	kind stepKind
	of   int // ofStatement, ofSettings: the index of the settlement, or noSettlement
	k    int // ofStatement, ofSettings: the number of the enlisted statement, or noStatement
}

type stepKind uint8

const (
	ofCompletions stepKind = iota
	ofStatement            // an enlisted one
	ofSettings             // the comparison or the reset of settings, after an enlisted statement or of a record
	ofEnd                  // the COMMIT, or none of the statements
)

// noSettlement is the index of no settlement, and noStatement the number of no statement.
const (
	noSettlement = -1
	noStatement  = -1
)

func (r *request) add(what step, sql string, args ...any) {
	r.steps = append(r.steps, what)
	r.batch.Queue(sql, args...)
}

// enlisted adds the kth statement of a handler.
func (r *request) enlisted(st *statement, of, k int) {
	r.add(step{ofStatement, of, k}, st.text.sent, st.args...)
}

// completions adds completions that fail if one is refused, in the order of their keys (see byKey).
func (r *request) completions(sql *statements, ss []store.Settlement, members []int) {
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b int) int { return strings.Compare(ss[a].Key, ss[b].Key) })
	for from, to := range chunks.Of(len(members), maxCompletions,
		func(n int) int { return len(ss[members[n]].Result) }) {
		r.add(step{kind: ofCompletions}, sql.completeAll, completeArgs(ss, members[from:to])...)
	}
}

// maxCompletions is the maximum number of completions in one statement of a transaction.
const maxCompletions = 1000

// send sends the request.
func (r *request) send(w *silence.Watch, conn *pgx.Conn) error {
	answered := func(results pgx.BatchResults) error {
		tag, err := results.Exec()
		if err != nil {
			return err
		}
		w.Heard()
		if r.steps[r.done].kind == ofEnd {
			r.end = tag
		}
		r.done++
		r.last = tag
		return nil
	}
	for _, queued := range r.batch.QueuedQueries {
		queued.Fn = answered
	}
	return pgtrip.Send(w, conn, &r.batch)
}

// isPreparing reports whether the server could not prepare a statement. Statements are prepared before any is
// executed.
func isPreparing(err error) bool {
	var preparing pgx.ErrPreprocessingBatch
	return errors.As(err, &preparing)
}

// failed returns the step whose statement the server reported an error of.
func (r *request) failed(err error) step {
	at := r.done
	var preparing pgx.ErrPreprocessingBatch
	if errors.As(err, &preparing) {
		at = slices.IndexFunc(r.batch.QueuedQueries, func(q *pgx.QueuedQuery) bool { return q.SQL == preparing.SQL() })
	}
	if at < 0 || at >= len(r.steps) {
		return step{kind: ofEnd, of: noSettlement}
	}
	return r.steps[at]
}

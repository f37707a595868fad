package reconcile

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// Report lists the keys and rows that an operator should check.
type Report struct {
	Overdue []store.Entry `json:"overdue"` // STARTED, and the lease or delay is over
	Failed  []store.Entry `json:"failed"`

	// The fields below are nil without an export.
	OnlyInStore  []store.Entry `json:"onlyInStore,omitempty"`  // COMPLETED, and not in the export
	OnlyInExport []Row         `json:"onlyInExport,omitempty"` // without a key that is COMPLETED
	Unsettled    []Unsettled   `json:"unsettled,omitempty"`
	Twice        []Row         `json:"twice,omitempty"` // the second and further rows of a key

	Records int `json:"records"` // read from the store
	Rows    int `json:"rows"`    // read from the export
	Matched int `json:"matched"` // rows whose key is COMPLETED
}

// Unsettled is a business record whose key is in the store, but not COMPLETED.
type Unsettled struct {
	Row    Row         `json:"row"`
	Record store.Entry `json:"record"`
}

// Differs reports whether the export and the store disagree.
func (r *Report) Differs() bool {
	return len(r.OnlyInStore)+len(r.OnlyInExport)+len(r.Unsettled)+len(r.Twice) > 0
}

// Options configure a reconciliation.
type Options struct {
	// Prefix is prepended to the keys of the export. Stored keys without the prefix need not be in the export. Keys that are stored as
	// a hash have no visible prefix.
	Prefix string
	// From and To are bounds of the completion times of the keys that must be in the export. Zero means no bound.
	From, To time.Time
}

// Run compares the store with the export, which may be nil.
func Run(ctx context.Context, st store.Admin, export iter.Seq2[Row, error], o Options, now time.Time) (*Report, error) {
	r := &Report{}
	rows, err := r.index(export, o.Prefix)
	if err != nil {
		return nil, err
	}
	for rec, err := range st.List(ctx, store.ListQuery{}) {
		if err != nil {
			return nil, err
		}
		r.Records++
		r.judge(&rec, now)
		if rows != nil {
			r.compare(rows, &rec, o)
		}
	}
	r.OnlyInExport = rows.inOrder()
	return r, nil
}

func (r *Report) judge(rec *store.Entry, now time.Time) {
	overdue := store.ListQuery{Overdue: true}
	switch {
	case rec.Status == store.StatusFailed && now.Before(rec.Expiry):
		r.Failed = append(r.Failed, *rec)
	case overdue.Matches(rec, now):
		r.Overdue = append(r.Overdue, *rec)
	}
}

// compare compares an entry with its row, and removes the row from the remaining ones.
func (r *Report) compare(left *index, rec *store.Entry, o Options) {
	row, ok := left.take(rec.Key)
	switch {
	case ok && rec.Status == store.StatusCompleted:
		r.Matched++
	case ok:
		r.Unsettled = append(r.Unsettled, Unsettled{Row: row, Record: *rec})
	case !strings.HasPrefix(rec.Key, o.Prefix) && !store.IsHashed(rec.Key):
	case rec.Status == store.StatusCompleted && !rec.UpdatedAt.Before(o.From) && (o.To.IsZero() || rec.UpdatedAt.Before(o.To)):
		r.OnlyInStore = append(r.OnlyInStore, *rec)
	}
}

// index returns the rows of an export by stored key.
type index struct {
	rows   []Row
	taken  []bool
	stored map[string]int
}

func (r *Report) index(export iter.Seq2[Row, error], prefix string) (*index, error) {
	if export == nil {
		return nil, nil //nolint:nilnil // nothing to compare with
	}
	x := &index{stored: make(map[string]int)}
	for row, err := range export {
		if err != nil {
			return nil, err
		}
		r.Rows++
		plain := prefix + row.Key
		if _, twice := x.stored[plain]; twice {
			r.Twice = append(r.Twice, row)
			continue
		}
		n := len(x.rows)
		x.rows, x.taken = append(x.rows, row), append(x.taken, false)
		x.stored[plain] = n
		for _, hash := range []bool{false, true} {
			if key, err := store.Key(plain, hash); err == nil {
				x.stored[key] = n
			}
		}
	}
	return x, nil
}

func (x *index) take(key string) (Row, bool) {
	n, ok := x.stored[key]
	if !ok {
		return Row{}, false
	}
	x.taken[n] = true
	return x.rows[n], true
}

// inOrder returns the remaining rows in the order of the export.
func (x *index) inOrder() []Row {
	if x == nil {
		return nil
	}
	var left []Row
	for n, row := range x.rows {
		if !x.taken[n] {
			left = append(left, row)
		}
	}
	return left
}

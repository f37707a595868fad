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

	// What follows is nil without an export.
	OnlyInStore  []store.Entry `json:"onlyInStore,omitempty"`  // COMPLETED, and not in the export
	OnlyInExport []Row         `json:"onlyInExport,omitempty"` // no key that is COMPLETED
	Unsettled    []Unsettled   `json:"unsettled,omitempty"`
	Twice        []Row         `json:"twice,omitempty"` // the second and further rows of a key

	Records int `json:"records"` // read from the store
	Rows    int `json:"rows"`    // read from the export
	Matched int `json:"matched"` // rows whose key is COMPLETED
}

// Unsettled is a business record whose key is there, but not COMPLETED.
type Unsettled struct {
	Row    Row         `json:"row"`
	Record store.Entry `json:"record"`
}

// Differs reports whether the export and the store disagree.
func (r *Report) Differs() bool {
	return len(r.OnlyInStore)+len(r.OnlyInExport)+len(r.Unsettled)+len(r.Twice) > 0
}

// Options says what is compared.
type Options struct {
	// Prefix is put before the keys of the export, and stored keys that do not begin with it need not be there. Of a key that is
	// stored as its hash, it can't be told with what it begins.
	Prefix string
	// From and To bound the COMPLETED records that must be in the export, by when they completed; zero is no bound.
	From, To time.Time
}

// Run reads the store, and the export unless it is nil.
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

// compare takes the record's row out of those that are left.
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

// index finds the rows of an export by their keys as stored.
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

// inOrder returns the rows that have no match.
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

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// Report lists the keys and rows that an operator should check, at most Options.Limit of each kind. Entries
// have no results.
type Report struct {
	Overdue []store.Entry `json:"overdue"` // STARTED, and the lease or delay is over
	Failed  []store.Entry `json:"failed"`

	// The fields below are nil without an export.
	OnlyInStore []store.Entry `json:"onlyInStore,omitempty"` // COMPLETED, and not in the export
	// without a key that is COMPLETED; nil if Unfinished
	OnlyInExport []Row       `json:"onlyInExport,omitempty"`
	Unsettled    []Unsettled `json:"unsettled,omitempty"`
	Twice        []Row       `json:"twice,omitempty"` // the second and further rows of a key

	Found   Counts `json:"found"`   // of each kind, also those beyond the limit
	Records int    `json:"records"` // read from the store
	Rows    int    `json:"rows"`    // read from the export
	Matched int    `json:"matched"` // rows whose key is COMPLETED

	// InProgress is the time since the first claim of the key that has been STARTED for longest, in
	// nanoseconds.
	InProgress time.Duration `json:"inProgressNanoseconds"`
	// Unfinished reports that the time was over before all was read: the report has what was found until
	// then.
	Unfinished bool `json:"unfinished,omitempty"`

	limit    int
	compares bool
}

// Counts are the numbers of keys and rows of each kind.
type Counts struct {
	Overdue      int `json:"overdue"`
	Failed       int `json:"failed"`
	OnlyInStore  int `json:"onlyInStore"`
	OnlyInExport int `json:"onlyInExport"`
	Unsettled    int `json:"unsettled"`
	Twice        int `json:"twice"`
}

// Unsettled is a business record whose key is in the store, but not COMPLETED.
type Unsettled struct {
	Row    Row         `json:"row"`
	Record store.Entry `json:"record"`
}

// Differences returns the number of differences between the export and the store.
func (r *Report) Differences() int {
	return r.Found.OnlyInStore + r.Found.OnlyInExport + r.Found.Unsettled + r.Found.Twice
}

// Options configure a reconciliation.
type Options struct {
	// Prefix is prepended to the keys of the export. Stored keys without the prefix need not be in the
	// export. Keys that are stored as a hash have no visible prefix.
	Prefix string
	// From and To are bounds of the completion times of the keys that must be in the export. Zero means no
	// bound.
	From, To time.Time
	// Limit is the maximum number of keys or rows that the report lists of each kind. Zero means no limit.
	Limit int
}

// ErrExport means that the export can't be read.
var ErrExport = errors.New("the export can't be read")

// Run compares the store with the export, which may be nil; an error of the export is ErrExport (wrapped).
// Its memory does not depend on the number of keys in the store if there is a limit: it holds the keys of the
// export, about 150 bytes a row. If the deadline of ctx ends it, it returns an unfinished report.
func Run(ctx context.Context, st store.Admin, export iter.Seq2[Row, error], o Options,
	now time.Time) (*Report, error) {
	r := &Report{limit: o.Limit, compares: export != nil}
	rows, err := r.index(export, o.Prefix)
	if err != nil {
		return r.ended(ctx, fmt.Errorf("%w: %w", ErrExport, err))
	}
	for entry, err := range st.List(ctx, store.ListQuery{}) {
		if err != nil {
			return r.ended(ctx, err)
		}
		entry.Result = nil
		r.Records++
		r.judge(&entry, now)
		if rows != nil {
			r.compare(rows, &entry, o)
		}
	}
	for row := range rows.left() {
		add(&r.OnlyInExport, &r.Found.OnlyInExport, r.limit, row)
	}
	return r, nil
}

// ended returns the report as unfinished if the deadline of ctx has ended the run, otherwise the error.
func (r *Report) ended(ctx context.Context, err error) (*Report, error) {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		r.Unfinished = true
		return r, nil
	}
	return nil, err
}

// add counts v, and appends it unless the list is full.
func add[T any](list *[]T, count *int, limit int, v T) {
	if *count++; limit == 0 || *count <= limit {
		*list = append(*list, v)
	}
}

func (r *Report) judge(entry *store.Entry, now time.Time) {
	if entry.Status == store.StatusStarted {
		r.InProgress = max(r.InProgress, now.Sub(entry.CreatedAt))
	}
	overdue := store.ListQuery{Overdue: true}
	switch {
	case entry.Status == store.StatusFailed && now.Before(entry.Expiry):
		add(&r.Failed, &r.Found.Failed, r.limit, *entry)
	case overdue.Matches(entry, now):
		add(&r.Overdue, &r.Found.Overdue, r.limit, *entry)
	}
}

// compare compares an entry with its row, and removes the row from the remaining ones.
func (r *Report) compare(left *index, entry *store.Entry, o Options) {
	row, ok := left.take(entry.Key)
	switch {
	case ok && entry.Status == store.StatusCompleted:
		r.Matched++
	case ok:
		add(&r.Unsettled, &r.Found.Unsettled, r.limit, Unsettled{Row: row, Record: *entry})
	case !strings.HasPrefix(entry.Key, o.Prefix) && !store.IsHashed(entry.Key):
	case entry.Status == store.StatusCompleted && !entry.UpdatedAt.Before(o.From) &&
		(o.To.IsZero() || entry.UpdatedAt.Before(o.To)):
		add(&r.OnlyInStore, &r.Found.OnlyInStore, r.limit, *entry)
	}
}

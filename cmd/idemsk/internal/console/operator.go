package console

import (
	"context"
	"errors"
)

// Operator is the page of a store: its entries, its outbox and its dead letters. Its methods are called
// concurrently. Nothing is read unless the page asks for it. An error is shown with its whole text, which
// says what to do.
type Operator interface {
	// Store describes the store, and what the page can do.
	Store(ctx context.Context) Store
	// Entry reads the entry of one key. An unknown key is store.ErrNotFound.
	Entry(ctx context.Context, s Search) (Entry, error)
	// Entries reads some entries: the first ones that a filter selects, or those after an earlier listing.
	Entries(ctx context.Context, f Filter) (Listing, error)
	// Parked reads parked events of the outbox.
	Parked(ctx context.Context) (ParkedEvents, error)
	// Letters reads dead letters.
	Letters(ctx context.Context) (Letters, error)
	// Reconcile reads the whole store, and compares it with an export, if there is one.
	Reconcile(ctx context.Context, e Export) (Report, error)
	// Do performs a change, and says what it has done. An entry that has changed meanwhile is
	// store.ErrFenced.
	Do(ctx context.Context, c Change) (done string, err error)
}

// Errors of an Operator that the API answers with a status of their own.
var (
	// ErrReadOnly means that the page changes nothing.
	ErrReadOnly = errors.New("this console is read-only: start it with --allow-changes to change entries, dead letters and events")
	// ErrInput means that a field of a request is not valid.
	ErrInput = errors.New("please correct the request")
	// ErrCursor means that a listing can't be continued.
	ErrCursor = errors.New("this listing can't be continued: others were read since. Read it again from the beginning")
)

// Store describes a store.
type Store struct {
	Place     string `json:"place"`
	Cost      string `json:"cost"`      // of reading it whole
	Changes   bool   `json:"changes"`   // whether the page may change something
	Outbox    string `json:"outbox"`    // the place of the outbox and the cost of reading it; "" for none
	Letters   string `json:"letters"`   // the place of the dead letters; "" for none
	Redrive   bool   `json:"redrive"`   // whether dead letters have a destination
	Namespace string `json:"namespace"` // of the keys that are searched, by default
	Topic     string `json:"topic"`
	Page      int    `json:"page"` // the entries in a listing, at most
	Most      int    `json:"most"` // the entries that are read for a listing, at most
}

// Search names a key: as it is stored, or, with a namespace or a topic, as in the record.
type Search struct{ Key, Namespace, Topic string }

// Filter selects entries.
type Filter struct {
	Status  string // STARTED, COMPLETED or FAILED; "" for all
	Overdue bool   // STARTED, and its lease or delay is over
	Failure bool   // not COMPLETED, and the last attempt failed
	Before  string // a time or a duration, as for idemsk list --before; "" for all
	Has     string // part of the key
	Cursor  string // of the listing to continue; the other fields are those of that listing
}

// Listing is a part of what a filter selects.
type Listing struct {
	Entries  []Entry  `json:"entries"`
	Read     int      `json:"read"`     // how many were read for it
	Cursor   string   `json:"cursor"`   // to read on; "" at the end
	Problems []string `json:"problems"` // entries that can't be read
}

// Entry is the entry of a key. Times are microseconds since 1970; 0 is none.
type Entry struct {
	Key      string `json:"key"`
	Status   string `json:"status"`
	State    string `json:"state"` // one of the states of a Key
	Expired  bool   `json:"expired"`
	Token    int64  `json:"token"` // a change names the one that was seen
	Attempts int    `json:"attempts"`
	Source   string `json:"source"`
	Owner    string `json:"owner"`
	Until    int64  `json:"until"` // of the lease, or of the wait for another attempt
	Created  int64  `json:"created"`
	Updated  int64  `json:"updated"`
	Expires  int64  `json:"expires"`
	Print    string `json:"fingerprint"`
	Result   string `json:"result"` // only of a key that is searched
	Code     string `json:"code"`   // of the failure
	Message  string `json:"message"`
	FailedAt int64  `json:"failedAt"`
}

// Parked is a parked event or, in DynamoDB, an item with events of one transaction.
type Parked struct {
	ID        string `json:"id"`
	Aggregate string `json:"aggregate"`
	Events    int    `json:"events"`
	Topic     string `json:"topic"`
	Key       string `json:"key"`
	Created   int64  `json:"created"` // microseconds since 1970
	Parked    int64  `json:"parked"`
	Attempts  int    `json:"attempts"`
	Failure   string `json:"failure"`
}

// ParkedEvents are parked events.
type ParkedEvents struct {
	Events   []Parked `json:"events"`
	Problems []string `json:"problems"` // events that can't be read
	More     bool     `json:"more"`
}

// Letters are dead letters.
type Letters struct {
	Letters []Letter `json:"letters"`
	Others  []string `json:"others"` // messages that are no dead letters, and why
	More    bool     `json:"more"`   // there may be more
}

// Export is an export of business records to compare with. An empty Name is none.
type Export struct {
	Name      string `json:"name"` // ends in .csv or .jsonl
	Field     string `json:"field"`
	Text      string `json:"text"`
	Namespace string `json:"namespace"`
	Topic     string `json:"topic"`
}

// Report is the report of a reconciliation.
type Report struct {
	Records int     `json:"records"` // read from the store
	Rows    int     `json:"rows"`    // of the export
	Matched int     `json:"matched"` // rows whose key is COMPLETED
	Groups  []Group `json:"groups"`
}

// Group is a kind of entries that an operator should check.
type Group struct {
	Name    string     `json:"name"`
	Count   int        `json:"count"`
	Entries []LineItem `json:"entries"` // the first ones
}

// LineItem is an entry, a row of the export, or both.
type LineItem struct {
	Key   string `json:"key"`
	Entry *Entry `json:"entry"` // nil: the store has none
	Line  int    `json:"line"`  // of the export; 0: none
}

// The changes.
const (
	ChangeDelete  = "delete"  // the entry of Key, if it has Token
	ChangeRedrive = "redrive" // Letters; none: all
	ChangeRequeue = "requeue" // Events; none: all
)

// Change is a change that the page asks for.
type Change struct {
	Action  string   `json:"action"`
	Key     string   `json:"key"` // as stored
	Token   int64    `json:"token"`
	Letters []string `json:"letters"` // IDs
	Events  []Parked `json:"events"`  // ID and Aggregate
}

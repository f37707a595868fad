// Package console serves the pages of idemsk local and idemsk console: what a run does, or what a store has.
// The two implement [Source] and [Operator].
package console

import (
	"context"
	"errors"

	"github.com/idemsk/idemsk/idem/store"
)

// Source is what the page shows. Its methods are called concurrently and return soon. All texts are shown as
// they are: the page escapes them.
type Source interface {
	// Run returns the state of the run. Its counts only grow.
	Run() Run
	// Keys returns the keys that a query selects, those that changed last first.
	Keys(q Query) Keys
	// History returns what happened to a key, and false if the key is unknown.
	History(key string) (History, bool)
	// Invocations returns the invocations that are kept, the newest first.
	Invocations() Invocations
	// Invocation returns an invocation that is kept, and false if there is none of that number.
	Invocation(number int) (Detail, bool)
	// Letters returns the dead letters.
	Letters(ctx context.Context) ([]Letter, error)
	// Verdict compares the ledger with the records so far.
	Verdict(ctx context.Context) (Verdict, error)
	// Do performs an action, and says what it has done. An unknown one is ErrAction.
	Do(ctx context.Context, a Action) (done string, err error)
}

// ErrAction means that an action is unknown, lacks a field, or is not available in this run.
var ErrAction = errors.New("the action is not available")

// ErrFile means that a file has no records, is too large, or has a line that is not a record.
var ErrFile = errors.New("nothing was produced")

// Run is the state of a run.
type Run struct {
	Title      string      `json:"title"`
	Elapsed    int64       `json:"elapsed"` // milliseconds
	Ended      bool        `json:"ended"`   // no state follows
	Enabled    bool        `json:"enabled"` // false: the event source mapping is disabled
	Counts     []Count     `json:"counts"`
	Partitions []Partition `json:"partitions"`
	Rates      []int       `json:"rates"` // records that were done in each of the last seconds
	LastError  string      `json:"lastError"`
	Alarms     []Alarm     `json:"alarms"`  // faults and outages that last, the worst ones first
	Notice     string      `json:"notice"`  // what the page can't show in this run
	Actions    []string    `json:"actions"` // those that are available
	// WhyNoEffect says why ActionKillEffect is not available; "" if it is.
	WhyNoEffect string `json:"whyNoEffect"`
	// Keys and Invocations change with each change of a key and of an invocation.
	Keys        uint64 `json:"keys"`
	Invocations uint64 `json:"invocations"`
	// Verdict is the last one, if Ended and the run verified its ledger.
	Verdict *Verdict `json:"verdict,omitempty"`
}

// Count is a number of the run.
type Count struct {
	Name  string `json:"name"`
	Value int    `json:"value"`
	Bad   bool   `json:"bad"` // a number above 0 needs attention
}

// The levels of an alarm.
const (
	AlarmWarn = "warn"
	AlarmBad  = "bad"
)

// Alarm is a fault or an outage while it lasts. Times are microseconds since 1970, and 0 if they are unknown.
type Alarm struct {
	Level string `json:"level"`
	Text  string `json:"text"`
	Since int64  `json:"since"`
	Until int64  `json:"until"`
}

// Partition is the progress of a partition.
type Partition struct {
	Number    int32 `json:"number"`
	Committed int64 `json:"committed"`
	End       int64 `json:"end"`
	Lag       int64 `json:"lag"`
	InFlight  int   `json:"inFlight"`
}

// Query selects keys.
type Query struct {
	Has   string // part of the key
	State string // one of the states; "" for all
}

// The states of a key.
const (
	Held      = "in flight"  // STARTED, within its lease
	LeaseOver = "lease over" // STARTED, and another owner may take it
	Waiting   = "waiting"    // STARTED and released: another attempt follows
	Completed = "completed"
	Failed    = "failed"
)

// StateOf returns the state of a key from its status, whether it waits for another attempt, and whether its
// lease is over; "" without a status.
func StateOf(status store.Status, waits, over bool) string {
	switch {
	case status == store.StatusCompleted:
		return Completed
	case status == store.StatusFailed:
		return Failed
	case status == "":
		return ""
	case waits:
		return Waiting
	case over:
		return LeaseOver
	}
	return Held
}

// Keys are some keys.
type Keys struct {
	Keys     []Key          `json:"keys"`
	Selected int            `json:"selected"` // of which Keys are the first ones
	States   map[string]int `json:"states"`   // the number of all keys by state
	// Forgotten is the number of keys whose history is not kept any more.
	Forgotten int `json:"forgotten"`
}

// Key is the entry of a key. Times are microseconds since 1970.
type Key struct {
	Key      string `json:"key"`
	State    string `json:"state"`
	Token    int64  `json:"token"` // the fencing token
	Attempts int    `json:"attempts"`
	Source   string `json:"source"`
	Outcome  string `json:"outcome"` // the result, or the last failure
	Until    int64  `json:"until"`   // of a lease, or of the wait for another attempt; 0: none
	Updated  int64  `json:"updated"`
	Steals   int    `json:"steals"`
	Refused  int    `json:"refused"` // writes of former owners
	Replays  int    `json:"replays"`
}

// The kinds of events in a history.
const (
	KindDelivered = "delivered" // an invocation began that has a record of the key
	KindClaimed   = "claimed"
	KindStolen    = "stolen"
	KindWaited    = "waited" // a claim was refused, because another owner has the key
	KindExtended  = "extended"
	KindReleased  = "released" // the attempt failed, and another one may follow
	KindCompleted = "completed"
	KindFailed    = "failed"
	KindFenced    = "fenced"   // a settlement of a former owner was refused
	KindReplayed  = "replayed" // a delivery found the key completed
	KindRepeated  = "repeated" // a delivery found the key failed
	KindDied      = "died"     // the process of the owner ended
	KindPaused    = "paused"
	KindResumed   = "resumed"
	KindDeleted   = "deleted"
)

// InBatchDuplicate is the outcome of a record that shares that of another record of its batch. No request is
// made for it, so it is no event of the key.
const InBatchDuplicate = "duplicate"

// History is what happened to a key, in order.
type History struct {
	Key     Key     `json:"key"`
	Events  []Event `json:"events"`
	Dropped int     `json:"dropped"` // older events
	// Record is the record that was delivered last; nil if its invocation is not kept.
	Record *Delivered `json:"record"`
}

// Delivered is a record that an invocation got. Its bytes are texts, in base64 if they are not UTF-8.
type Delivered struct {
	Place    string   `json:"place"`
	Key      string   `json:"key"`     // in the store; "" if it is unknown
	Outcome  string   `json:"outcome"` // InBatchDuplicate, or the kind of the key's last event in the invocation; "": none
	At       int64    `json:"at"`      // its timestamp, in microseconds since 1970; 0: none
	KafkaKey string   `json:"kafkaKey"`
	Value    string   `json:"value"`
	Headers  []Header `json:"headers"`
}

// Header is a header of a record.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Event is something that happened to a key.
type Event struct {
	At         int64  `json:"at"` // microseconds since 1970
	Kind       string `json:"kind"`
	Process    int    `json:"process"`    // from 1; 0: unknown
	Invocation int    `json:"invocation"` // its number; 0: none
	Batch      string `json:"batch"`
	Token      int64  `json:"token"` // that of the owner, or of the refused write
	Attempts   int    `json:"attempts"`
	Until      int64  `json:"until"` // of the lease, or of the wait for another attempt
	Note       string `json:"note"`  // the result, the failure
	Times      int    `json:"times"` // how often it happened in a row, the last time At
}

// Invocations are invocations of the function.
type Invocations struct {
	Invocations []Invocation `json:"invocations"`
	Dropped     int          `json:"dropped"` // older ones that are not kept any more
}

// Invocation is one call of the function.
type Invocation struct {
	Number  int      `json:"number"`
	Process int      `json:"process"` // from 1; 0: unknown
	Batch   string   `json:"batch"`
	Try     int      `json:"try"` // the number of the batch's invocation, from 1
	Records int      `json:"records"`
	Begun   int64    `json:"begun"` // microseconds since 1970
	Took    int64    `json:"took"`  // microseconds; -1: it is running
	Outcome string   `json:"outcome"`
	Error   string   `json:"error"`
	Tags    []string `json:"tags"` // what happened to its records: bisected, given up
}

// The outcomes of an invocation.
const (
	OutcomeRunning = "running"
	OutcomeOK      = "ok"
	OutcomeFailed  = "failed"
	OutcomeKilled  = "killed" // by an injected fault
)

// Detail is an invocation with its event, its answer and the lines that the process printed during it.
type Detail struct {
	Invocation
	Outcomes []Delivered `json:"outcomes"` // the first records of its event
	Event    string      `json:"event"`
	Answer   string      `json:"answer"`
	Log      []string    `json:"log"`
	Cut      bool        `json:"cut"` // the event, the answer or the log is longer
}

// Letter is a dead letter.
type Letter struct {
	ID       string `json:"id"`
	Key      string `json:"key"`
	Source   string `json:"source"`
	Code     string `json:"code"`
	Message  string `json:"message"`
	Attempts int    `json:"attempts"`
	Token    int64  `json:"token"`
	At       int64  `json:"at"` // microseconds since 1970
	Value    string `json:"value"`
}

// The actions.
const (
	ActionDisable = "disable" // the event source mapping
	ActionEnable  = "enable"  // the event source mapping
	ActionKill    = "kill"    // the process that claims a key next
	// ActionKillEffect kills the process that writes to a table other than that of the keys, after the write
	// and before it has the answer.
	ActionKillEffect = "killEffect"

	// the process that claims a key next, beyond its lease; the batch is delivered to another process.
	ActionPause       = "pause"
	ActionRedeliver   = "redeliver"   // Action.Invocation, to another process
	ActionTwice       = "twice"       // Action.Invocation, to two processes at once
	ActionStoreFail   = "storeFail"   // for StoreFault
	ActionStoreSlow   = "storeSlow"   // for StoreFault
	ActionProduce     = "produce"     // Action.Record
	ActionProduceFile = "produceFile" // Action.File
	ActionRedrive     = "redrive"     // Action.Letters; none: all
)

// Action is a change that the page asks for.
type Action struct {
	Action     string   `json:"action"`
	Invocation int      `json:"invocation"`
	Letters    []string `json:"letters"` // IDs
	Record     *Record  `json:"record"`
	File       string   `json:"file"` // records, one a line in JSON, at most MaxFile bytes
}

// MaxFile is the maximum size of a file with records, in bytes.
const MaxFile = 4 << 20

// Record is a record to produce.
type Record struct {
	Key   string `json:"key"`
	ID    string `json:"id"` // the header idempotency-key; "" for none
	Value string `json:"value"`
}

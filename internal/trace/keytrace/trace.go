package keytrace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"strings"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// DirVariable is the environment variable that names a folder for traces. If it is set, the tests write there
// what they observe of each key: a file for each key of a store, and in it one event in a line.
const DirVariable = "IDEMSK_TRACE_DIR"

// MaxOfProcesses is the maximum number of traces of a test or a run with processes: TLC checks a few of these
// a second.
const MaxOfProcesses = 150

// Event is a line of a trace: the beginning of a call, with the answer that it got, or the end of a call.
// Times are in milliseconds since the trace began. Tokens are milliseconds since an hour before. Owners and
// fingerprints are numbers, 0 for none.
type Event struct {
	Begin     bool   `json:"begin"`
	ID        int    `json:"id"` // of the call
	At        int64  `json:"at"`
	Op        string `json:"op"`
	Own       int    `json:"own"`
	Ver       int64  `json:"ver"`
	Fp        int    `json:"fp"`
	TakeOver  bool   `json:"takeOver"`
	Redrive   int64  `json:"redrive"`
	Lease     int64  `json:"lease"`
	Retention int64  `json:"retention"`
	Delay     int64  `json:"delay"`
	Tx        bool   `json:"tx"` // a completion with the effect of a handler
	Answer    string `json:"answer"`
	Got       bool   `json:"got"` // the answer has an entry
	State
}

// State is an entry as a state of the model (docs/spec/idem.tla). That its lease or its retention is over is
// no part of it, because entries have times instead.
type State struct {
	Status   string `json:"gotSt"` // A: there is none; S, C, F
	Token    int64  `json:"gotVer"`
	Owner    int    `json:"gotOwn"`
	Attempts int    `json:"gotAtt"`
	Print    int    `json:"gotFp"`
	Released bool   `json:"gotRel"`
	Until    int64  `json:"gotUntil"` // the end of the lease, or of the delay if it is released
	Expiry   int64  `json:"gotExp"`
}

// Clock is the time at which a trace began. Its methods make the numbers of a trace.
type Clock time.Time

// At returns a time in milliseconds since the trace began.
func (c Clock) At(t time.Time) int64 { return t.UnixMilli() - time.Time(c).UnixMilli() }

// epoch is the token in a trace of a claim at the time 0.
const epoch = int64(time.Hour / time.Millisecond)

// Token returns a token as a number that TLC can represent, 0 if it is none that the store has issued.
func (c Clock) Token(v int64) int64 {
	if n := v - time.Time(c).UnixMilli() + epoch; n > 0 && n < 1<<30 {
		return n
	}
	return 0
}

// State maps an entry to the model. No Status means that there is no entry.
func (c Clock) State(e *store.Entry) State {
	if e.Status == "" {
		return State{Status: "A"}
	}
	var until int64 // of a final entry it means nothing
	switch {
	case e.Released():
		until = c.At(e.RetryAt)
	case e.Held():
		until = c.At(e.LeaseUntil)
	}
	return State{
		Status: string(e.Status[0]), Token: c.Token(e.Token), Owner: Number(e.Owner), Attempts: e.Attempts,
		Print:    Number(e.Fingerprint.String()),
		Released: e.Released(), Until: until, Expiry: c.At(e.Expiry),
	}
}

// Number returns a number for a name, the same in all processes, 0 for the empty name.
func Number(name string) int {
	if name == "" {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // never fails
	return 1 + int(h.Sum32()&(1<<30-1))
}

// Config are the parameters of traces.
type Config struct {
	Dir   string // the folder of their files
	Name  string // the beginning of the files' names, of the test or the run
	Began time.Time
	// Skew is the MaxClockSkew of the store, and Tolerance the maximum difference between its clock and that
	// of the trace.
	Skew, Tolerance time.Duration
}

// Write writes the trace of a key to a file of its own.
func (c *Config) Write(events []*Event) error {
	f, err := os.CreateTemp(c.Dir, strings.NewReplacer("/", "_", "*", "_").Replace(c.Name)+"-*.jsonl")
	if err != nil {
		return err
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, `{"skew":%d,"tolerance":%d,"phase":%d,"epoch":%d}`+"\n",
		c.Skew.Milliseconds(), c.Tolerance.Milliseconds(), c.Began.UnixMilli()%1000, epoch) //nolint:mnd // the part of a second
	out := json.NewEncoder(&text)
	for _, e := range events {
		if err = out.Encode(e); err != nil {
			break
		}
	}
	if err == nil {
		_, err = f.Write(text.Bytes())
	}
	return errors.Join(err, f.Close())
}

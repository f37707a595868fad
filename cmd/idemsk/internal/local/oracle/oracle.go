// Package oracle computes from delivered records alone what the ledger of the example function must contain,
// and how each record must have ended. It shares no code with the engine and the function that it checks.
package oracle

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/mskevent"
)

// Outcome is how a record must have ended.
type Outcome string

// The outcomes.
const (
	Booked   Outcome = "booked"   // its key is COMPLETED
	Failed   Outcome = "failed"   // its key is FAILED, and there is a dead letter
	Rejected Outcome = "rejected" // it has no usable key: its place is FAILED, and there is a dead letter
)

// Record is a record that was delivered.
type Record struct {
	Source  string // topic-partition@offset
	Key     string // as stored
	Outcome Outcome
}

// Ledger is the expected ledger, with the records that it was computed from.
type Ledger struct {
	rules    Rules
	balances map[string]int64
	records  []Record
	known    map[string]bool // by source
	keys     map[string]first
	booked   int
}

// first is the first record of a key. It decides the outcome.
type first struct {
	fingerprint [sha256.Size]byte
	outcome     Outcome
}

// New returns the ledger of no records.
func New(rules Rules) *Ledger {
	return &Ledger{rules: rules, balances: make(map[string]int64), known: make(map[string]bool),
		keys: make(map[string]first)}
}

// Add adds records in the order of their offsets. A record that was added before is the same record,
// redelivered.
func (l *Ledger) Add(records []mskevent.Record) error {
	for _, r := range ascending(records) {
		source := r.PartitionID + "@" + strconv.FormatInt(r.Offset, 10)
		if err := l.add(source, &r); err != nil {
			return fmt.Errorf("record %s: %w", source, err)
		}
	}
	return nil
}

func (l *Ledger) add(source string, r *mskevent.Record) error {
	if l.known[source] {
		return nil
	}
	l.known[source] = true
	place := source + timestampOf(r.JSON)
	expected := Record{Source: source, Key: l.rules.Namespace + "@" + place, Outcome: Rejected}
	record, err := decode(r.JSON)
	if err == nil {
		var key string
		switch key, err = l.rules.key(record, place); {
		case err == nil:
			l.decide(&expected, l.rules.storedKey(r.Topic(), key), record)
		case errors.Is(err, errNoKey) && l.rules.MissingKey == "process":
			l.decide(&expected, expected.Key, record)
			err = nil
		}
	}
	if err != nil && !errors.Is(err, errRejected) {
		return err
	}
	expected.Key, err = store.Key(expected.Key, l.rules.HashKeys)
	l.records = append(l.records, expected)
	return err
}

// decide gives a record with a key the outcome of the key's first record, if both have the same value.
func (l *Ledger) decide(expected *Record, key string, record *decoded) {
	fingerprint := record.fingerprint()
	before, ok := l.keys[key]
	if !ok {
		before = first{fingerprint: fingerprint, outcome: Failed}
		if p, ok := l.rules.payment(record.Value); ok {
			before.outcome = Booked
			l.balances[p.Account+"/"+p.Currency] += p.Amount
			l.booked++
		}
		l.keys[key] = before
	}
	if before.fingerprint == fingerprint {
		expected.Key, expected.Outcome = key, before.outcome
	}
}

// Rules returns the rules that the ledger was computed by.
func (l *Ledger) Rules() Rules { return l.rules }

// Balances returns the balances by account and currency, "acc-1/EUR", in minor units.
func (l *Ledger) Balances() map[string]int64 { return l.balances }

// Booked returns the number of payments in the balances.
func (l *Ledger) Booked() int { return l.booked }

// Records returns the records, each once.
func (l *Ledger) Records() []Record { return l.records }

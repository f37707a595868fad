// Package expect says what must be in the payment ledger after some events, and how every one of their records must have
// ended. It is worked out from the events alone, without any of the code that it is there to check.
package expect

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/mskevent"
)

// Fate is how a record must have ended.
type Fate string

// The fates.
const (
	Booked   Fate = "booked"   // its key is COMPLETED
	Failed   Fate = "failed"   // its key is FAILED, and a dead letter says so
	Rejected Fate = "rejected" // it has no usable key: its place is FAILED, and a dead letter says so
)

// Place is a record that was delivered.
type Place struct {
	Source string // topic-partition@offset
	Key    string // as stored: where its fate is recorded
	Fate   Fate
}

// Ledger is what must be.
type Ledger struct {
	rules    Rules
	balances map[string]int64
	places   []Place
	known    map[string]bool // sources
	keys     map[string]first
	booked   int
}

// first is the first record of a key, which decides.
type first struct {
	fingerprint [sha256.Size]byte
	fate        Fate
}

// New returns the ledger of no events.
func New(rules Rules) *Ledger {
	return &Ledger{rules: rules, balances: make(map[string]int64), known: make(map[string]bool), keys: make(map[string]first)}
}

// Add adds the records of an event. One that was added before is the same record delivered again.
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
	where := source + timestampOf(r.JSON)
	place := Place{Source: source, Key: l.rules.Namespace + "@" + where, Fate: Rejected}
	rec, err := decode(r.JSON)
	if err == nil {
		var key string
		switch key, err = l.rules.key(rec, where); {
		case err == nil:
			l.decide(&place, l.rules.storedKey(r.Topic(), key), rec)
		case errors.Is(err, errNoKey) && l.rules.MissingKey == "process":
			l.decide(&place, place.Key, rec)
			err = nil
		}
	}
	if err != nil && !errors.Is(err, errRejected) {
		return err
	}
	place.Key, err = store.Key(place.Key, l.rules.HashKeys)
	l.places = append(l.places, place)
	return err
}

// decide gives a record with a key its fate: that of the first record of the key if it asks for the same.
func (l *Ledger) decide(place *Place, key string, rec *record) {
	fingerprint := rec.fingerprint()
	before, ok := l.keys[key]
	if !ok {
		before = first{fingerprint: fingerprint, fate: Failed}
		if p, ok := l.rules.payment(rec.Value); ok {
			before.fate = Booked
			l.balances[p.Account+"/"+p.Currency] += p.Amount
			l.booked++
		}
		l.keys[key] = before
	}
	if before.fingerprint == fingerprint {
		place.Key, place.Fate = key, before.fate
	}
}

// Balances are the balances by account and currency, "acc-1/EUR", in minor units.
func (l *Ledger) Balances() map[string]int64 { return l.balances }

// Booked is the number of payments in them.
func (l *Ledger) Booked() int { return l.booked }

// Places are all records that were delivered.
func (l *Ledger) Places() []Place { return l.places }

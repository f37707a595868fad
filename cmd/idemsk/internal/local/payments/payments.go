// Package payments generates payments for the example function. The same seed gives the same payments.
package payments

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"strconv"

	"github.com/idemsk/idemsk/internal/mskevent"
)

// MaxRecords is the maximum of Config.Records.
const MaxRecords = 10_000_000

// Payment is the value of a record, as the example function documents it.
type Payment struct {
	PaymentID string `json:"paymentId"`
	Account   string `json:"account"`
	Amount    int64  `json:"amount"` // in minor units: cents
	Currency  string `json:"currency"`
	Simulate  string `json:"simulate,omitempty"` // a failure
}

// Config configures the payment generator.
type Config struct {
	Records int // 0 to MaxRecords
	Seed    uint64
	// Copies is the probability, 0 to 1, that the next record is a copy of one of the latest 1,000 records:
	// the same key and value at another offset. 0 means DefaultCopies.
	Copies float64
	// FreezesPerMille is the average number of payments in 1,000 that freeze the process of the function
	// once.
	FreezesPerMille float64
}

// DefaultCopies is the default of Config.Copies.
const DefaultCopies = 0.02

// accounts is the number of accounts that receive payments.
const accounts = 20

// Payments with simulated failures, as their average number in 1,000 payments.
const (
	PoisonPerMille = 1 // always fails
	FlakyPerMille  = 2 // fails twice, then succeeds
	perMille       = 1000.0
)

// latest is the maximum number of records between a copy and its original.
const latest = 1000

// Messages yields the records of a topic in order, all in partition 0.
func (c Config) Messages(topic string) iter.Seq2[mskevent.Message, error] {
	return func(yield func(mskevent.Message, error) bool) {
		g := generator{Config: c, topic: topic, rand: rand.New(rand.NewPCG(c.Seed, 1))} //nolint:gosec // the same seed must give the same numbers
		for offset := range int64(c.Records) {
			m, err := g.message()
			m.Offset = offset
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

type generator struct {
	Config
	topic  string
	rand   *rand.Rand
	latest []mskevent.Message
	paid   int // number of payments
}

// message returns the next record: a new payment, or a copy of one of the latest records.
func (g *generator) message() (mskevent.Message, error) {
	if n := len(g.latest); n > 0 && g.rand.Float64() < cmp.Or(g.Copies, DefaultCopies) {
		return g.latest[g.rand.IntN(n)], nil
	}
	g.paid++
	p := Payment{
		PaymentID: fmt.Sprintf("pay-%d-%06d", g.Seed, g.paid),
		Account:   fmt.Sprintf("account-%02d", 1+g.rand.IntN(accounts)),
		Amount:    1 + g.rand.Int64N(99_999),
		Currency:  "EUR",
	}
	switch fault := g.rand.Float64(); {
	case fault < PoisonPerMille/perMille:
		p.Simulate = "permanent"
	case fault < (PoisonPerMille+FlakyPerMille)/perMille:
		p.Simulate = "retry:2"
	case fault < (PoisonPerMille+FlakyPerMille+g.FreezesPerMille)/perMille:
		p.Simulate = "freeze:1"
	}
	value, err := json.Marshal(p)
	if err != nil {
		return mskevent.Message{}, fmt.Errorf("encoding payment %s: %w", p.PaymentID, err)
	}
	m := mskevent.Message{
		Topic: g.topic, Key: []byte(p.Account), Value: value,
		Headers: []mskevent.Header{{Key: "idempotency-key", Value: []byte(p.PaymentID)},
			{Key: "trace", Value: []byte(strconv.Itoa(g.paid))}},
	}
	if len(g.latest) < latest {
		g.latest = append(g.latest, m)
	} else {
		g.latest[g.paid%latest] = m
	}
	return m, nil
}

// Package stream generates payments for the example's function: the same ones for the same seed.
package stream

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"strconv"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/expect"
	"github.com/idemsk/idemsk/internal/mskevent"
)

// MaxRecords bounds Config.Records.
const MaxRecords = 10_000_000

// Config says what to generate.
type Config struct {
	Records int // 0 to MaxRecords
	Seed    uint64
	// Copies is the chance that the producer sends one of the latest 1,000 records again: same key and value, another offset.
	// 0 is DefaultCopies.
	Copies float64
}

// DefaultCopies is the share of copies in a stream.
const DefaultCopies = 0.02

// Accounts is the number of accounts that payments go to.
const Accounts = 20

// What a stream holds besides plain payments and copies, as how many of 1,000 records on average.
const (
	PoisonPerMille = 1 // can never be booked
	ShakyPerMille  = 2 // fails twice, then succeeds
	perMille       = 1000.0
)

// latest is how many records a copy may be behind its original.
const latest = 1000

// Messages yields the records in their order: of the topic, all in partition 0.
func (c Config) Messages(topic string) iter.Seq2[mskevent.Message, error] {
	return func(yield func(mskevent.Message, error) bool) {
		g := generator{Config: c, topic: topic, rand: rand.New(rand.NewPCG(c.Seed, 1))} //nolint:gosec // it has to give the same numbers again
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
	paid   int // payments
}

// message makes the next record: a new payment, or a copy of one of the latest.
func (g *generator) message() (mskevent.Message, error) {
	if n := len(g.latest); n > 0 && g.rand.Float64() < cmp.Or(g.Copies, DefaultCopies) {
		return g.latest[g.rand.IntN(n)], nil
	}
	g.paid++
	p := expect.Payment{
		PaymentID: fmt.Sprintf("pay-%d-%06d", g.Seed, g.paid),
		Account:   fmt.Sprintf("account-%02d", 1+g.rand.IntN(Accounts)),
		Amount:    1 + g.rand.Int64N(99_999),
		Currency:  "EUR",
	}
	switch fault := g.rand.Float64(); {
	case fault < PoisonPerMille/perMille:
		p.Simulate = "permanent"
	case fault < (PoisonPerMille+ShakyPerMille)/perMille:
		p.Simulate = "retry:2"
	}
	value, err := json.Marshal(p)
	if err != nil {
		return mskevent.Message{}, fmt.Errorf("encoding payment %s: %w", p.PaymentID, err)
	}
	m := mskevent.Message{
		Topic: g.topic, Key: []byte(p.Account), Value: value,
		Headers: []mskevent.Header{{Key: "idempotency-key", Value: []byte(p.PaymentID)}, {Key: "trace", Value: []byte(strconv.Itoa(g.paid))}},
	}
	if len(g.latest) < latest {
		g.latest = append(g.latest, m)
	} else {
		g.latest[g.paid%latest] = m
	}
	return m, nil
}

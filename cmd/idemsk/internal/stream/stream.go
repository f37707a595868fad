// Package stream generates payments as Kafka would deliver them: the same ones for the same seed.
package stream

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"strconv"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/expect"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/mskevent"
)

// Bounds of a Config.
const (
	MaxRecords    = 10_000_000
	MaxPartitions = 1000
	MaxBatchSize  = 10_000 // the event source mapping's own
)

// Config says what to generate.
type Config struct {
	Records    int // 0 to MaxRecords
	Partitions int // 1 to MaxPartitions
	BatchSize  int // 1 to MaxBatchSize
	Seed       uint64
	// Copies is the chance that the producer sends one of the batch's records again: same key and value, another offset.
	// 0 is DefaultCopies.
	Copies float64
}

// DefaultCopies is the share of copies in a stream.
const DefaultCopies = 0.02

// Topic is the topic of all generated records: none that the sample events have.
const Topic = "payments-replay"

// Accounts is the number of accounts that payments go to.
const Accounts = 20

// What a stream holds besides plain payments and copies, as how many of 1,000 records on average.
const (
	PoisonPerMille = 1 // can never be booked
	ShakyPerMille  = 2 // fails twice, then succeeds
	perMille       = 1000.0
)

// start is the time of the first record, 2026-01-01T00:00:00Z; each is a millisecond later than the one before.
const start = 1_767_225_600_000

// The random sequences that a seed gives, so that none depends on how much is taken from another.
const (
	sequenceRecords = 1
	sequenceRepeats = 2
	sequenceKills   = 3
)

func (c Config) random(sequence uint64) *rand.Rand {
	return rand.New(rand.NewPCG(c.Seed, sequence)) //nolint:gosec // it has to give the same numbers again
}

// Batches yields the events in their order.
func (c Config) Batches() iter.Seq2[*mskevent.Batch, error] {
	return func(yield func(*mskevent.Batch, error) bool) {
		g := generator{Config: c, rand: c.random(sequenceRecords), offsets: make([]int64, c.Partitions)}
		for n := 1; g.made < c.Records; n++ {
			b, err := g.batch(n, min(c.BatchSize, c.Records-g.made))
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
}

// Repeats says, for one batch after another, whether it is delivered again once it is settled.
func (c Config) Repeats(chance float64) func() bool {
	r := c.random(sequenceRepeats)
	return func() bool { return r.Float64() < chance }
}

// Kills picks n different numbers from 1 to the number of effects, at random: before which of them to kill. There must be
// at least n.
func (c Config) Kills(n, effects int) []int {
	r := c.random(sequenceKills)
	picked := r.Perm(effects)[:n]
	for i := range picked {
		picked[i]++
	}
	return picked
}

type generator struct {
	Config
	rand    *rand.Rand
	offsets []int64
	made    int // records
	paid    int // payments
}

func (g *generator) batch(number, size int) (*mskevent.Batch, error) {
	messages := make([]mskevent.Message, 0, size)
	for range size {
		m, err := g.message(messages)
		if err != nil {
			return nil, err
		}
		messages = append(messages, m)
	}
	return mskevent.New(fmt.Sprintf("batch %d", number), messages)
}

// message makes the next record: a new payment, or a copy of one in the batch.
func (g *generator) message(batch []mskevent.Message) (mskevent.Message, error) {
	g.made++
	if len(batch) > 0 && g.rand.Float64() < cmp.Or(g.Copies, DefaultCopies) {
		m := batch[g.rand.IntN(len(batch))]
		return g.place(m, int(m.Partition)), nil
	}
	g.paid++
	p := expect.Payment{
		PaymentID: fmt.Sprintf("pay-%d-%06d", g.Seed, g.paid),
		Account:   fmt.Sprintf("account-%02d", 1+g.rand.IntN(Accounts)),
		Amount:    1 + g.rand.Int64N(99_999),
		Currency:  "EUR",
	}
	switch trouble := g.rand.Float64(); {
	case trouble < PoisonPerMille/perMille:
		p.Simulate = "permanent"
	case trouble < (PoisonPerMille+ShakyPerMille)/perMille:
		p.Simulate = "retry:2"
	}
	value, err := json.Marshal(p)
	if err != nil {
		return mskevent.Message{}, fmt.Errorf("encoding payment %s: %w", p.PaymentID, err)
	}
	m := mskevent.Message{
		Topic: Topic, TimestampType: "CREATE_TIME", Key: []byte(p.Account), Value: value,
		Headers: []mskevent.Header{{Key: "idempotency-key", Value: []byte(p.PaymentID)}, {Key: "trace", Value: []byte(strconv.Itoa(g.paid))}},
	}
	return g.place(m, g.rand.IntN(g.Partitions)), nil
}

// place puts a record at the end of a partition.
func (g *generator) place(m mskevent.Message, partition int) mskevent.Message {
	m.Partition, m.Offset, m.Timestamp = int32(partition), g.offsets[partition], start+int64(g.made)
	g.offsets[partition]++
	return m
}

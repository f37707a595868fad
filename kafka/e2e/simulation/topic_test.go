package simulation_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/kafka"
)

// kind is what happens to a payment.
type kind string

const (
	booked    kind = "booked"    // its booking commits with the completion
	fenced    kind = "fenced"    // its effect is a write that refuses smaller tokens
	slow      kind = "slow"      // booked, by a handler that takes longer than a lease
	flaky     kind = "flaky"     // booked, after some temporary errors
	panicking kind = "panicking" // booked, after a panic
	permanent kind = "permanent" // a dead letter at once
	hopeless  kind = "hopeless"  // a dead letter when its attempts are used up
)

// fails reports whether payments of this kind become FAILED.
func (k kind) fails() bool { return k == permanent || k == hopeless }

// payment is the value of a record.
type payment struct {
	ID       string `json:"id"`
	Account  string `json:"account"`
	Amount   int    `json:"amount"`
	Kind     kind   `json:"kind"`
	Failures int    `json:"failures"` // of a flaky one
	Copy     string `json:"copy"`     // differs if the key was used for another payment
}

// record is a record of the topic.
type record struct {
	mskevent.Message
	payment payment
	keyless bool
	at      time.Duration // when it can be read
}

func (r *record) source() string { return r.PartitionID() + "@" + strconv.FormatInt(r.Offset, 10) }

// produce returns the records of the seed's topic, of which only the first most are kept if most is not 0. Producers repeat some
// payments, use some keys for another payment, and forget some keys.
func produce(d dice, s *settings, most int) [][]record {
	partitions := make([][]record, s.partitions)
	n := 0
	add := func(partition int, p payment, keyless bool) {
		if n++; most > 0 && n > most {
			return
		}
		value, err := json.Marshal(p)
		if err != nil {
			panic(err) // a payment encodes
		}
		r := record{payment: p, keyless: keyless, at: time.Duration(n*d.between(0, 400, "production")) * time.Millisecond}
		r.Topic, r.Partition, r.Offset, r.Key, r.Value = topic, int32(partition), int64(len(partitions[partition])), []byte(p.Account), value
		if !keyless {
			r.Headers = []mskevent.Header{{Key: kafka.DefaultKeyHeader, Value: []byte(p.ID)}}
		}
		partitions[partition] = append(partitions[partition], r)
	}
	for i := range s.payments {
		id := fmt.Sprintf("pay-%03d", i)
		p := paymentOf(d, s, id)
		partition := d.between(0, s.partitions-1, id+" partition")
		add(partition, p, d.chance(0.05, id+" without key"))
		for c := range 2 {
			name := id + " copy " + strconv.Itoa(c)
			if d.chance(0.2, name) {
				add(partition, p, false)
			}
			if d.chance(0.05, name+" of another") {
				other := p
				other.Copy = strconv.Itoa(c + 1)
				add(partition, other, false)
			}
		}
		if i > 0 && d.chance(0.15, id+" repeats an earlier one") {
			earlier := d.between(0, i-1, id+" which")
			eid := fmt.Sprintf("pay-%03d", earlier)
			partition := d.between(0, s.partitions-1, id+" elsewhere")
			if !s.elsewhere {
				partition = d.between(0, s.partitions-1, eid+" partition") // its own
			}
			add(partition, paymentOf(d, s, eid), false)
		}
	}
	return partitions
}

func paymentOf(d dice, s *settings, id string) payment {
	kinds := []kind{booked, booked, booked, booked, slow, slow, flaky, panicking, permanent, hopeless}
	if !s.unfenced() {
		kinds = append(kinds, fenced, fenced)
	}
	return payment{
		ID: id, Account: "account-" + strconv.Itoa(d.between(1, 3, id+" account")), Amount: d.between(1, 999, id+" amount"),
		Kind: pick(d, id+" kind", kinds...), Failures: d.between(1, 2, id+" failures"),
	}
}

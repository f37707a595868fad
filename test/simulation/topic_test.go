package simulation_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/kafka"
)

// kind is what happens to a payment.
type kind string

const (
	accepted  kind = "accepted"
	flaky     kind = "flaky"     // accepted, after some temporary errors
	panicking kind = "panicking" // accepted, after some panics
	waiting   kind = "waiting"   // accepted, after the handler has said that what it needs is unavailable
	rejected  kind = "rejected"  // accepted, after the store has rejected some effects
	permanent kind = "permanent" // a dead letter at once
	hopeless  kind = "hopeless"  // a dead letter when its attempts are used up
	poison    kind = "poison"    // it ends each process that handles it
)

// fails reports whether payments of this kind become dead letters, until they are redriven.
func (k kind) fails() bool { return k == permanent || k == hopeless || k == poison }

// payment is the value of a record.
type payment struct {
	ID       string `json:"id,omitempty"`
	Account  string `json:"account"`
	Amount   int    `json:"amount"`
	Kind     kind   `json:"kind"`
	Failures int    `json:"failures"` // of those that are accepted at last
	Slow     bool   `json:"slow"`     // its handler takes longer than a lease
	Copy     string `json:"copy"`     // differs if the key was used for another payment
}

// record is a record of the topic.
type record struct {
	mskevent.Message
	payment payment
	key     string        // the stored key; "" if it has none, so that it becomes a dead letter
	stored  string        // the stored form of its place, under which such a record is settled
	print   []byte        // its fingerprint, as stored; nil without fingerprints
	at      time.Duration // when it can be read
	redrive int64         // the token of the dead letter that it was
	unknown bool          // its key never had that token
	// why nothing needs to become of it: what an operator did, or the limits of the event source
	lost  string
	calls []int // the calls of bulk handlers that it was in
}

func (r *record) source() string { return r.PartitionID() + "@" + strconv.FormatInt(r.Offset, 10) }

// place identifies a record, also in a topic that was created again.
func (r *record) place() string { return placeOf(r.Partition, r.Offset, r.Timestamp) }

func placeOf(partition int32, offset, timestamp int64) string {
	return fmt.Sprintf("%d@%d@%d", partition, offset, timestamp)
}

// lane identifies the records that are handled in order; "" if there is no order, as for records without a
// Kafka key.
func (s *settings) lane(r *record) string {
	switch s.config["IDEMSK_ORDER"] {
	case "partition":
		return strconv.Itoa(int(r.Partition))
	case "key":
		if r.Key != nil {
			return strconv.Itoa(int(r.Partition)) + " " + string(r.Key)
		}
	}
	return ""
}

// draft is a record before it has a place.
type draft struct {
	payment   payment
	partition int
	keyless   bool
	tombstone bool
}

// drafts returns what the seed's producers write, in this order. They repeat some payments, use some keys for
// another payment, and forget some keys.
func (s *settings) drafts(d dice) (list []draft) {
	for i := range s.payments {
		id := fmt.Sprintf("pay-%03d", i)
		one := draft{payment: s.payment(d, id), partition: d.between(0, s.partitions-1, id+" partition")}
		one.tombstone = s.is("tombstones", "yes") && d.chance(0.15, id+" is a tombstone")
		first := one
		first.keyless = s.is("keyless", "yes") && d.chance(0.2, id+" without key")
		list = append(list, first)
		for c := range 2 {
			name := id + " copy " + strconv.Itoa(c)
			if !s.is("copies", "no") && d.chance(0.25, name) {
				list = append(list, one)
			}
			if s.is("other values", "yes") && d.chance(0.12, name+" of another") {
				other := one
				other.payment.Copy, other.tombstone = strconv.Itoa(c+1), false
				list = append(list, other)
			}
		}
		if i > 0 && !s.is("copies", "no") && d.chance(0.15, id+" repeats an earlier one") {
			eid := fmt.Sprintf("pay-%03d", d.between(0, i-1, id+" which"))
			earlier := draft{payment: s.payment(d, eid),
				partition: d.between(0, s.partitions-1, eid+" partition")}
			earlier.tombstone = s.is("tombstones", "yes") && d.chance(0.15, eid+" is a tombstone")
			if s.is("copies", "other partitions") {
				earlier.partition = d.between(0, s.partitions-1, id+" elsewhere")
			}
			list = append(list, earlier)
		}
	}
	return list
}

func (s *settings) payment(d dice, id string) payment {
	kinds := []kind{accepted, accepted, accepted, accepted, accepted, accepted}
	if !s.is("failures", "no") {
		kinds = append(kinds, flaky, panicking, waiting)
	}
	if s.is("failures", "permanent") {
		kinds = append(kinds, permanent, hopeless)
	}
	if s.is("refused effects", "yes") {
		kinds = append(kinds, rejected)
	}
	if s.is("poison", "yes") {
		kinds = append(kinds, poison)
	}
	return payment{
		ID: id, Account: "account-" + strconv.Itoa(d.between(1, 3, id+" account")),
		Amount: d.between(1, 999, id+" amount"),
		Kind:   pick(d, id+" kind", kinds...), Failures: d.between(1, 2, id+" failures"),
		Slow: s.is("slow records", "yes") && d.chance(0.2, id+" is slow"),
	}
}

// record returns the record of a draft at a place.
func (s *settings) record(dr *draft, offset int, at time.Duration, timestamp time.Time) *record {
	p := dr.payment
	if dr.keyless {
		p.ID = ""
	}
	r := &record{payment: dr.payment, at: at}
	r.Topic, r.Partition, r.Offset, r.Key = topic, int32(dr.partition), int64(offset), []byte(p.Account)
	r.Timestamp = timestamp.UnixMilli()
	if s.is("IDEMSK_KEY", "key") {
		r.Key = nil
		if !dr.keyless {
			r.Key = []byte(p.ID)
		}
	}
	if !dr.tombstone {
		value, err := json.Marshal(p)
		if err != nil {
			panic(err) // a payment encodes
		}
		r.Value = value
	}
	if !dr.keyless {
		r.Headers = []mskevent.Header{{Key: kafka.DefaultKeyHeader, Value: []byte(p.ID)}}
	}
	s.identify(r)
	return r
}

// identify computes under which key a record is stored.
func (s *settings) identify(r *record) {
	key := ""
	switch s.config["IDEMSK_KEY"] {
	case "header:idempotency-key":
		for _, h := range r.Headers {
			if h.Key == kafka.DefaultKeyHeader {
				key = string(h.Value)
			}
		}
	case "key":
		key = string(r.Key)
	case "json:$.id":
		var p payment
		_ = json.Unmarshal(r.Value, &p) // a tombstone has no ID
		key = p.ID
	case "hash":
		if r.Value != nil {
			sum := sha256.Sum256(r.Value)
			key = hex.EncodeToString(sum[:])
		}
	case "offset":
		key = topic + "-" + r.place()
	}
	r.key, r.print = "", nil
	r.stored = s.hashed(function + "@" + topic + "-" + r.place())
	switch {
	case key == "" && s.is("IDEMSK_MISSING_KEY", "process"):
		r.key = r.stored
	case key != "" && s.is("IDEMSK_KEY_SCOPE", "namespace"):
		r.key = s.hashed(kafka.StoredKey(function, "", key))
	case key != "":
		r.key = s.hashed(kafka.StoredKey(function, topic, key))
	}
	if s.is("IDEMSK_FINGERPRINT", "value") && r.key != r.stored {
		sum := store.FingerprintOf(r.Value)
		r.print = sum[:]
	}
}

// hashed returns a key as it is stored.
func (s *settings) hashed(key string) string {
	stored, err := store.Key(key, s.is("IDEMSK_HASH_KEYS", "true"))
	if err != nil {
		panic(err) // it is not empty
	}
	return stored
}

//go:build rest

package torture_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// expected reads the topic: the first record of each idempotency key is booked, on each account in the order
// of the offsets.
func (r *run) expected() *effects {
	client, err := kgo.NewClient(kgo.SeedBrokers(r.kafka.Addr()), kgo.ConsumeTopics(topic))
	if err != nil {
		r.Fatal(err)
	}
	defer client.Close()
	want, seen, read := newEffects(), make(map[string]bool), 0
	for read < r.produced {
		fetches := client.PollFetches(r.ctx)
		if r.ctx.Err() != nil {
			r.Fatalf("read %d of %d records", read, r.produced)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			read++
			key := string(record.Headers[0].Value)
			var b booking
			if err := json.Unmarshal(record.Value, &b); err != nil {
				r.Fatal(err)
			}
			if !seen[key] {
				seen[key] = true
				want.places[b.Account] = append(want.places[b.Account],
					fmt.Sprintf("%s-%d@%d", topic, record.Partition, record.Offset))
				want.balance[b.Account] += b.Amount
			}
		})
	}
	return want
}

// verify compares the effects with what the topic has.
func (r *run) verify(found *effects) {
	begun := time.Now()
	want, problems := r.expected(), 0
	problem := func(format string, args ...any) {
		const most = 20
		if problems++; problems <= most {
			r.Errorf(format+"; see "+r.log.path, args...)
		}
	}
	bookings := 0
	for _, account := range slices.Sorted(maps.Keys(want.places)) {
		places := want.places[account]
		bookings += len(places)
		booked := make(map[string]int)
		for _, p := range found.places[account] {
			booked[p]++
		}
		for _, p := range places {
			if n := booked[p]; n != 1 {
				problem("record %s (Kafka key %s) was booked %d times", p, account, n)
			}
			delete(booked, p)
		}
		for _, p := range slices.Sorted(maps.Keys(booked)) {
			problem("record %s (Kafka key %s) was booked, and is a duplicate of an earlier one", p, account)
		}
		if got := found.places[account]; !slices.Equal(got, places) && len(got) == len(places) {
			problem("Kafka key %s was booked in the order %v; want %v", account, got, places)
		}
		if found.balance[account] != want.balance[account] {
			problem("the balance of %s is %d; want %d", account, found.balance[account],
				want.balance[account])
		}
	}
	if len(found.places) != len(want.places) {
		problem("%d accounts were booked on; want %d", len(found.places), len(want.places))
	}
	r.Logf("%d records, %d payments; verified in %v", r.produced, bookings,
		time.Since(begun).Round(time.Millisecond))
}

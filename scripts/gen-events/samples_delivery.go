package main

import "fmt"

func plainSamples() []sample {
	return []sample{
		{
			name:    "one-record",
			shows:   "One payment",
			settles: "Executes it",
			event:   msk(pay("one-record-1", 1250).at(0, 1000)),
		},
		{
			name:    "hundred-records-three-partitions",
			shows:   "A full default batch: 100 payments over 3 partitions and 9 accounts",
			settles: "Executes 100, the partitions concurrently, each in order",
			event:   msk(hundred()...),
		},
		{
			name:    "empty-records",
			shows:   "A records map without entries",
			settles: "Nothing to do, no error",
			event:   msk(),
		},
		{
			name:    "empty-partition",
			shows:   "A partition without records and one with a record",
			settles: "Executes 1",
			event:   withEmptyPartition(msk(pay("empty-partition-1", 300).at(1, 1400))),
		},
	}
}

func hundred() []record {
	records := make([]record, 0, 100)
	for i := range int32(100) {
		account := fmt.Sprintf("acc-%d", i%9+1)
		p := pay(fmt.Sprintf("hundred-%03d", i), int64(100+i)).to(account)
		records = append(records, p.at(i%3, int64(1200+i/3)))
	}
	return records
}

func withEmptyPartition(e event) event {
	e.Records = append(e.Records, partition{key: paymentsTopic + "-0", records: []record{}})
	return e
}

func duplicateSamples() []sample {
	return []sample{
		{
			name:    "duplicate-in-batch",
			shows:   "One payment three times in one batch, in two partitions, and another payment",
			settles: "Executes 2: the copies need no claim and share the outcome",
			event: msk(
				pay("duplicate-in-batch-1", 1000).at(0, 2000),
				pay("duplicate-in-batch-2", 2000).at(0, 2001),
				pay("duplicate-in-batch-1", 1000).at(0, 2002),
				pay("duplicate-in-batch-1", 1000).at(1, 2000),
			),
		},
		{
			name:    "duplicate-across-batches-1",
			shows:   "Two payments, to be followed by `duplicate-across-batches-2`",
			settles: "Executes 2",
			event: msk(
				pay("duplicate-across-1", 1100).at(0, 2100),
				pay("duplicate-across-2", 2200).at(0, 2101),
			),
		},
		{
			name:    "duplicate-across-batches-2",
			shows:   "The second again at its old offset (the batch is retried), the first again at a new one (the producer retried), and a new one",
			settles: "Replays the 2 stored results without calling the handler, executes 1",
			event: msk(
				pay("duplicate-across-2", 2200).at(0, 2101),
				pay("duplicate-across-1", 1100).at(0, 2102),
				pay("duplicate-across-3", 3300).at(0, 2103),
			),
		},
		{
			name:    "fingerprint-mismatch",
			shows:   "One key with two different values: a producer's bug, or a key that is too coarse",
			settles: "Executes the first; the second is a dead letter, stored under its place; the key is unchanged",
			event: msk(
				pay("fingerprint-mismatch-1", 1250).at(0, 2200),
				pay("fingerprint-mismatch-1", 9999).at(0, 2201),
			),
		},
		{
			name:    "composite-key",
			shows:   "Payment IDs that are unique within an account only: also for `IDEMSK_KEY=json:$.account,$.paymentId`",
			settles: "Executes 2, the copy shares the first one's outcome; with `json:$.paymentId` they would mismatch",
			event: msk(
				payment{key: "composite-key-acc-1-0001", id: "0001", account: "acc-1", amount: 700}.at(0, 2300),
				payment{key: "composite-key-acc-2-0001", id: "0001", account: "acc-2", amount: 800}.at(0, 2301),
				payment{key: "composite-key-acc-1-0001", id: "0001", account: "acc-1", amount: 700}.at(0, 2302),
			),
		},
	}
}

func orderSamples() []sample {
	return []sample{
		{
			name:    "unsorted-offsets",
			shows:   "Offsets of a partition out of order in the payload",
			settles: "Executes 3 in the order of their offsets",
			event: msk(
				pay("unsorted-offsets-3", 303).at(0, 3002),
				pay("unsorted-offsets-1", 301).at(0, 3000),
				pay("unsorted-offsets-2", 302).at(0, 3001),
			),
		},
		{
			name:    "partition-ten-and-two",
			shows:   "`payments-10` before `payments-2`, as text sorts them",
			settles: "Executes 4: each partition is a lane, in any order in the map",
			event: msk(
				pay("partition-ten-1", 1010).to("acc-10").at(10, 3000),
				pay("partition-ten-2", 1020).to("acc-10").at(10, 3001),
				pay("partition-two-1", 210).to("acc-2").at(2, 3000),
				pay("partition-two-2", 220).to("acc-2").at(2, 3001),
			),
		},
		{
			name:    "topic-names-with-dashes",
			shows:   "Topics `payments` and `payments-1`: map keys `payments-1` and `payments-1-0`",
			settles: "Executes 2: the partition is what follows the last dash",
			event: msk(
				pay("topic-names-1", 610).at(1, 3100),
				pay("topic-names-2", 620).at(0, 3100).onTopic(paymentsTopic+"-1"),
			),
		},
		{
			name:    "one-key-two-topics",
			shows:   "One payment under one key in two topics",
			settles: "Executes 2: a key is unique within its topic; with `IDEMSK_KEY_SCOPE=namespace` it would execute 1",
			event: msk(
				pay("one-key-two-topics-1", 630).at(0, 3200),
				pay("one-key-two-topics-1", 630).at(0, 3200).onTopic("payments-mirror"),
			),
		},
		{
			name:    "offset-beyond-2-to-the-53",
			shows:   "An offset that a 64-bit float can't represent",
			settles: "Executes it; log, item and dead letter name the offset exactly",
			event:   msk(beyondFloat64(pay("large-offset-1", 530).at(0, 3300))),
		},
	}
}

func beyondFloat64(r record) record {
	r.Offset = 1<<53 + 1
	return r
}

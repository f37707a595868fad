package main

import "encoding/json"

// badRecordSamples contain one record each that can't be executed, and a valid one after it, which must be executed.
func badRecordSamples() []sample {
	const settles = "The first is a dead letter, remembered under its place; executes the second"
	return []sample{
		{
			name:    "duplicate-header-keys-two-values",
			shows:   "The key's header twice, with two values: the key is ambiguous",
			settles: settles,
			event: msk(
				pay("two-keys-1", 1250).at(0, 6000).withHeaders(headers(idempotencyKey("two-keys-1"), idempotencyKey("two-keys-1-other"))),
				pay("two-keys-2", 1350).at(0, 6001),
			),
		},
		{
			name:    "bad-header-byte",
			shows:   "A header byte of 300",
			settles: settles,
			event: msk(
				pay("bad-header-byte-1", 1250).at(0, 6100).withHeaders(json.RawMessage(`[{"idempotency-key":[98,97,100,300]}]`)),
				pay("bad-header-byte-2", 1350).at(0, 6101),
			),
		},
		{
			name:    "bad-base64",
			shows:   "A value that is not base64",
			settles: settles,
			event: msk(
				pay("bad-base64-1", 1250).at(0, 6200).withValue(quoted("%%% not base64 %%%")),
				pay("bad-base64-2", 1350).at(0, 6201),
			),
		},
		{
			name:    "value-not-a-string",
			shows:   "A value that is a number",
			settles: settles,
			event: msk(
				pay("value-not-a-string-1", 1250).at(0, 6300).withValue(json.RawMessage("42")),
				pay("value-not-a-string-2", 1350).at(0, 6301),
			),
		},
		{
			name:    "bad-json-value",
			shows:   "A value that stops in the middle of its JSON",
			settles: "The handler can't read the first: permanent, so a dead letter, then FAILED; executes the second",
			event: msk(
				pay("bad-json-value-1", 1250).at(0, 6400).withValue(encoded(`{"paymentId":"bad-json-value-1","amount":`)),
				pay("bad-json-value-2", 1350).at(0, 6401),
			),
		},
	}
}

// handlerSamples request failures from the example handler with the field "simulate".
func handlerSamples() []sample {
	return []sample{
		{
			name:    "poison-record",
			shows:   "A payment that can never succeed (`permanent`) between two valid ones",
			settles: "Executes 2; the record is a dead letter at its first attempt, then FAILED",
			event: msk(
				pay("poison-record-1", 100).at(0, 7000),
				pay("poison-record-2", 200).simulating("permanent").at(0, 7001),
				pay("poison-record-3", 300).at(0, 7002),
			),
		},
		{
			name:    "fails-twice-then-succeeds",
			shows:   "A payment that fails twice, then succeeds (`retry:2`), before a good one",
			settles: "Released and reported twice, with the one after it; the third delivery executes 2",
			event: msk(
				pay("fails-twice-1", 1250).simulating("retry:2").at(0, 7100),
				pay("fails-twice-2", 1350).at(0, 7101),
			),
		},
		{
			name:    "always-fails-retriable",
			shows:   "A payment that always fails with a transient error (`retry`), before a valid one",
			settles: "Released and reported until its 5 attempts are used up, then a dead letter and FAILED; then executes the second",
			event: msk(
				pay("always-fails-1", 1250).simulating("retry").at(0, 7200),
				pay("always-fails-2", 1350).at(0, 7201),
			),
		},
		{
			name:    "handler-panics",
			shows:   "A payment whose handler panics (`panic`), and a good one in another partition",
			settles: "The panic is a failure of that record alone, with the stack in the log: then as `always-fails-retriable`; executes the other",
			event: msk(
				pay("handler-panics-1", 1250).simulating("panic").at(0, 7300),
				pay("handler-panics-2", 1350).at(1, 7300),
			),
		},
		{
			name:  "process-dies",
			shows: "A payment that kills the process (`exit`) between two good ones",
			settles: "Each death uses up an attempt; when the lease is over, the record is claimed again and runs alone; " +
				"after 5 deaths it is a dead letter, FAILED; executes 2",
			event: msk(
				pay("process-dies-1", 100).at(0, 7400),
				pay("process-dies-2", 200).simulating("exit").at(0, 7401),
				pay("process-dies-3", 300).at(0, 7402),
			),
		},
		{
			name:    "slow-record",
			shows:   "A payment that takes 200 ms (`sleep:200ms`), one after it and one in another partition",
			settles: "Executes 3: the later record waits, the other partition does not",
			event: msk(
				pay("slow-record-1", 100).simulating("sleep:200ms").at(0, 7500),
				pay("slow-record-2", 200).at(0, 7501),
				pay("slow-record-3", 300).at(1, 7500),
			),
		},
	}
}

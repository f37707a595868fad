package main

import "slices"

// sample is one event and its row in the README.
type sample struct {
	name    string // file name without .json: kebab-case, descriptive
	shows   string // one line of Markdown
	settles string // what idemsk does with it, one line of Markdown
	event   event
}

func (s sample) file() string { return s.name + ".json" }

// samples returns every committed sample in the README's order.
//
// All of them can be delivered with one table: idempotency keys and places (topic, partition, offset) are used once, except in
// samples about duplicates. Places must differ, because the entry of a rejected record is stored under its place.
func samples() []sample {
	return slices.Concat(
		plainSamples(), duplicateSamples(), orderSamples(),
		formatSamples(), headerSamples(), keylessSamples(),
		badRecordSamples(), handlerSamples(),
	)
}

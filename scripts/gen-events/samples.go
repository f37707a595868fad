package main

import "slices"

// sample is one event and what the README says about it.
type sample struct {
	name    string // file name without .json: kebab-case, says what it shows
	shows   string // one line of Markdown
	settles string // what idemsk does with it, one line of Markdown
	event   event
}

func (s sample) file() string { return s.name + ".json" }

// samples returns every committed sample in the README's order.
//
// All of them can be played against one table: idempotency keys and places (topic, partition, offset) are used once, except
// where a sample is about their being used again. A record's place counts, because what can't be run is remembered under it.
func samples() []sample {
	return slices.Concat(
		plainSamples(), duplicateSamples(), orderSamples(),
		formatSamples(), headerSamples(), keylessSamples(),
		badRecordSamples(), handlerSamples(),
	)
}

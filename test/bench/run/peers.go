//go:build linux

package main

import (
	"cmp"
	"path/filepath"
)

// peer is a program in a configuration, to be measured.
type peer struct {
	name    string
	command []string
	env     []string
	key     string // the key attribute of its table

	accounts int  // Kafka keys of its events; 0: as many as records
	records  int  // of its events; 0: records
	slow     bool // takes many seconds for an event: repeated less often
	batched  bool // sends batches, whose latency may be another
	noRepeat bool // is not measured with duplicates
	consumer bool // a consumer process: measured at 5 ms, and not with cold starts
}

// The peers that the bars are about.
const (
	batchedByKey       = "idemsk, key order, 32 at once"
	batchedFewKeys     = "idemsk, key order, 32 Kafka keys"
	batchedByPartition = "idemsk, partition order, 3 partitions"
	plain              = "idemsk, batching off, key order, 32 at once"
	theFloor           = "floor: the same requests, nothing else"
	goAtOnce           = "Go loop, 32 goroutines"
	goOneByOne         = "Go loop, one record after another"
	goByPartition      = "Go loop, one goroutine a partition, 3 partitions"
	pythonAsync        = "Powertools Python, async batch, 32 threads"
	typeScript         = "Powertools TypeScript, Promise.all"
	consumerProcess    = "idemsk, consumer process, key order, 32 at once"
	pollLoop           = "franz-go loop, 32 goroutines"
	layeredPython      = "Python behind the layer"
	layeredTypeScript  = "TypeScript behind the layer"
	nodeService        = "idemsk-consumer, Express"
	nodeFunction       = "idemsk-consumer, function in Node.js"
	pythonService      = "idemsk-consumer, FastAPI"
	pythonFunction     = "idemsk-consumer, function in Python"
	kafkaJS            = "kafkajs loop, 3 partitions at once"
	kafkaPython        = "kafka-python loop, one record after another"
)

// of100 names a peer with 100 records in a call.
func of100(name string) string { return name + ", 100 records a call" }

const (
	ourKey   = "idempotencyKey"
	theirKey = "id" // Powertools' default, and the Go loop's
)

// eventRecords returns how many records an event of the peer has.
func (p *peer) eventRecords() int { return cmp.Or(p.records, records) }

// consumerRecords is how many records an event of a consumer process has. A consumer handles a stream of
// records, so its event is longer than that of a function.
const consumerRecords = 5 * records

// loopRecords is the same for a loop that handles about 100 records a second.
const loopRecords = records / 2

func (r *runner) peers() []peer {
	// The collector's settings of lambda.StartFunc in a function of 512 MB. The floor has them too.
	tuned := []string{"GOGC=400", "GOMEMLIMIT=409MiB"}
	ours := func(name string, env ...string) peer {
		return peer{name: name, command: []string{r.program("idemsk")}, env: append(env, tuned...),
			key: ourKey, batched: true}
	}
	loop := func(name string, env ...string) peer {
		return peer{name: name, command: []string{r.program("goloop")}, env: env, key: theirKey}
	}
	python := func(name string, slow bool, env ...string) peer {
		command := []string{filepath.Join(r.options.cache, "python", "bin", "python"),
			filepath.Join(r.options.sources, "python", "peer.py")}
		return peer{name: name, command: command, env: env, key: theirKey, slow: slow}
	}
	const byKey, byPartition, at32 = "IDEMSK_ORDER=key", "IDEMSK_ORDER=partition", "BENCH_CONCURRENCY=32"

	fewKeys := ours(batchedFewKeys, byKey)
	fewKeys.accounts = 32
	withoutBatches := ours(plain, byKey, "IDEMSK_BATCHING=off")
	withoutBatches.batched = false
	oneByOne := loop(goOneByOne)
	oneByOne.slow = true
	partitions := loop(goByPartition, "BENCH_ORDER=partition", "BENCH_CONCURRENCY=3")
	partitions.slow = true
	all := []peer{
		ours(batchedByKey, byKey), fewKeys, ours(batchedByPartition, byPartition),
		withoutBatches,
		{name: theFloor, command: []string{r.program("floor")}, env: tuned, key: ourKey, batched: true,
			noRepeat: true},
		loop(goAtOnce, at32), partitions, oneByOne,
		python("Powertools Python, batch", true, "BENCH_MODE=batch"),
		python(pythonAsync, false, "BENCH_MODE=async", at32),
		{
			name: typeScript, command: []string{"node",
				filepath.Join(r.options.cache, "typescript", "peer.mjs")},
			env: []string{"AWS_SDK_JS_SUPPRESS_MAINTENANCE_MODE_MESSAGE=1", "NODE_NO_WARNINGS=1"},
			key: theirKey,
		},
		{name: consumerProcess, command: []string{r.program("consumer")}, key: ourKey,
			records: consumerRecords, consumer: true},
		{name: pollLoop, command: []string{r.program("pollloop")}, key: theirKey, records: consumerRecords,
			consumer: true, slow: true},
	}
	return append(all, r.inOtherLanguages()...)
}

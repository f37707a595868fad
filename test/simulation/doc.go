// Package simulation runs functions and consumer processes in virtual time, in a configuration that a seed
// draws, with producers, operators and faults of the seed, and checks the invariants of idempotency after
// every request. It has tests only. make simulate runs many seeds, make test a few.
//
// A run has a topic and a host. A function is package app/lambda behind an event source with pollers, with a
// handler of records, a bulk handler, or the protocol of the layer with a scripted function. A process is
// package app/process's consumer on an in-process Kafka with a virtual network. It is the real code from the
// event, or the fetch, down to the requests of the AWS SDK. The store is dynamostore on dynamofake, the queue
// of dead letters is sqsfake; both are called without sockets.
//
// # Configurations
//
// A configuration has a value of each dimension: each variable of docs/configuration.md (or there is a reason
// why not), and what hosts, producers and operators do (dimensions_test.go). A new variable that is no
// dimension fails a test. The configuration of a seed is, of some random ones, the one whose pairs of values
// were the rarest in the seeds before it, so that the 500 seeds from a multiple of 1000 have every possible
// pair. The 500 after them have configurations in which nothing is excepted from the promises
// (config_test.go). make simulate prints how many pairs were run together with a kill, an outage and a
// redelivery.
//
// Producers repeat payments, use keys for other values, forget keys, write tombstones and records that fail,
// are slow, or end each process that handles them. Operators redrive dead letters to the topic or the
// function, delete entries, move and delete offsets, add partitions, create the topic again, and deploy
// another configuration (operators_test.go).
//
// The faults are listed in seed_test.go: crashes before and after requests, requests and replies held for
// longer than a lease, lost and late requests, slow answers, throttling, conflicts, batches that fail in part,
// deliveries that are repeated or concurrent, rebalances, a full queue, outages of the store, of what handlers
// need and of the registry of keys. Clocks of processes differ by less than IDEMSK_MAX_CLOCK_SKEW, or by more.
//
// # Invariants
//
// After each step, which is a request that a service performs:
//   - tokens and leases never go back; a final entry changes only after its retention, or once for a redriven
//     record with its token;
//   - a claim raises the token and the attempts by one, and takes no key whose lease or delay is not over at
//     the clock of the claimer;
//   - only the process that claimed a key settles it, and not after it has released it;
//   - an attempt that failed is counted, and one at which what the handler needs was unavailable is not; the
//     delay after it is kept; an outage that is recognised costs few first attempts;
//   - effects take place as often as the key completes, with the result of the owner's handler and the
//     fingerprint of its record;
//   - a key is FAILED only if its dead letter is in the queue, and a record has a dead letter only for a
//     reason;
//   - a process that takes a key over handles nothing else meanwhile; an invocation releases what it has
//     claimed and not handled;
//   - a call of a bulk handler begins when the completions of the one before are answered, and a record that
//     has failed has a call of its own;
//   - no offset is committed beyond a record that is not settled; the answer to a redrive is true;
//   - what promises_test.go lists, unless it excepts the configuration: two handlers of a key do not run at
//     once, a handler runs with a claim, a key completes once, the records of a lane are handled in order. What
//     fails open handles records while the store is down;
//   - with IDEMSK_EFFECTS=at-most-once no handler is called again after a call that may have had its effect;
//     a key with such a call completes or has a dead letter that says so, and no other dead letter does;
//   - a handler is told when the lease of its key is over by the clock of its process.
//
// At the end, within half an hour after the last fault and without anything that an operator does, every
// record is settled: its key is final, or it has a dead letter. Redriven records have run, no key is STARTED,
// balances and events of the outbox are those of the completions, and time to live deletes all entries, not
// before their retention is over.
//
// # Defects that it finds
//
// defects.txt has the table of a run with changes of the code, of which each undid a rule or a repair: a seed that
// failed, and the settings that were left after shrinking. regressions_test.go has the seeds of repairs.
//
// # What a seed repeats, and what an order repeats
//
// A decision depends on the seed and on a name: of the record, of the process, of the request by its
// operation, its keys and its number among the same ones. It does not depend on the order of events. So a
// seed always has the same configuration, producers, clocks and latencies, and a request with a certain name
// always has the same fault. The jitter of backoffs, select, the order of maps and goroutines, and preemption
// are not decided by the seed, so a seed does not always have the same violation.
//
// With an order, all of it is repeated exactly, also in another process and on another machine: the tests run
// as WebAssembly in wazero, with one thread, and with a clock and random numbers that the order decides
// (exact_test.go). make simulate runs the seeds without an order, because that is some ten times faster. A
// violation is then looked for in the first orders of its seed, shrunk there, and reported with the command
// that repeats it exactly. Shrinking looks for few settings first, if need be with another seed, then for few
// faults and records (shrink_test.go).
//
// # Not simulated
//
//   - Lambda's event source itself (cmd/idemsk/internal/local/esm): the deliveries are made by the seed.
//   - A violation that needs two threads at the same moment, with an order: WebAssembly has one.
//   - A process that stands still: its requests and replies are held in a pause, but its timers continue.
//   - Faults between a member and Kafka, other than the end of the member. Groups of KIP-848.
//   - The loading of the AWS configuration, HTTP connections and their limits of silence, the HTTP of the
//     layer.
//   - PostgreSQL, Redis, dead letters in a topic or with a bucket, the relays of an outbox, and the tool
//     beside what it redrives.
package simulation

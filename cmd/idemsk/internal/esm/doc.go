// Package esm is an event source mapping: it reads a Kafka topic and invokes a function with batches of records, with the
// semantics that AWS documents for Lambda's own (docs/local.md has them row by row, each with its source).
//
// An [ESM] has pollers. Each has partitions of its own, an [Invoker] of its own and one batch at a time, so that a
// partition's records are delivered in order and pollers work side by side. A batch goes through these steps:
//
//	recorded.go  recorded events are taken as they are, where there is no topic
//	collect.go   records are read, filtered and gathered: by size, window and bytes of the encoded event
//	deliver.go   the function is invoked, again and again, until every record of the batch is done with
//	retry.go     what is delivered again, and what is given up
//	failure.go   what the on-failure destination gets of that
//	cluster.go   offsets: where to begin, and how far the group has come
//
// Offsets are committed when a batch is done with, never before. Kafka's group protocol is not used: the mapping holds all
// partitions of its topic, so it starts at once, and no session of a killed one must expire first.
package esm

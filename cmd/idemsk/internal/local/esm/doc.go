// Package esm is an event source mapping. It reads a Kafka topic and invokes a function with batches of records, with the
// semantics that AWS documents for Lambda's own event source mapping. docs/local.md lists them with their sources.
//
// An [ESM] has pollers. Each poller has its own partitions and its own [Invoker], and processes one batch at a time. So the records
// of a partition are delivered in order, and pollers work concurrently. A batch passes these steps:
//
//	recorded.go  takes recorded events unchanged, if there is no topic
//	collect.go   reads, filters and gathers records, limited by their number, the window and the bytes of the encoded event
//	deliver.go   invokes the function until every record of the batch is finished
//	retry.go     selects the records to deliver again, and those to give up
//	failure.go   describes records that are given up for the on-failure destination
//	cluster.go   reads and commits offsets
//
// The offsets of a batch are committed when it is finished. The mapping does not use Kafka's group protocol and reads all
// partitions of its topic. So it starts at once, and does not wait until the session of a killed mapping expires.
package esm

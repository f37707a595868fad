// Package esm is an event source mapping. It reads a Kafka topic and invokes a function with batches of
// records, with the semantics that AWS documents for Lambda's own event source mapping. docs/local.md lists
// the differences.
//
// An [ESM] has pollers. Each poller has its own partitions and its own [Invoker], and processes one batch at
// a time. So the records of a partition are delivered in order, and pollers work concurrently. A batch passes
// these steps:
//
//	recorded.go  takes recorded events unchanged, if there is no topic
//	collect.go   reads, filters and gathers records, limited by their number, the window and the bytes of the encoded event
//	deliver.go   invokes the function until every record of the batch is finished
//	retry.go     selects the records to deliver again, and those to give up
//	failure.go   describes records that are given up for the on-failure destination
//	cluster.go   reads and commits offsets
//
// The sources are these pages of the Lambda Developer Guide, https://docs.aws.amazon.com/lambda/latest/dg/:
//
//	kafka-esm-parameters.html             batch size, window
//	invocation-eventsourcemapping.html    batching; gettingstarted-limits.html: 6,291,456 bytes of a payload
//	with-msk-configure.html               order of a partition, commits, the function's timeout
//	kafka-starting-positions.html         positions, disabling; kafka-consumer-group-id.html: the group
//	kafka-scaling-modes.html              pollers
//	kafka-retry-configurations.html       retries, age, bisecting, partial responses
//	kinesis-on-failure-destination.html   throttled functions, RecordAgeExceeded (documented for Kinesis)
//	kafka-filtering.html                  filters; invocation-eventfiltering.html: their rules
//	kafka-on-failure.html                 destinations; kafka-on-failure-destination.html: a topic
//	services-consume-kafka-events.html    schema registries, records that are not valid
//	lambda-runtime-environment.html       the start of a process
//	with-msk.html                         the event
//
// The offsets of a batch are committed when it is finished. The mapping does not use Kafka's group protocol
// and reads all partitions of its topic. So it starts at once, and does not wait until the session of a
// killed mapping expires.
package esm

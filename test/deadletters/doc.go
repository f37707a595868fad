// Package deadletters contains the tests of kafka/deadletter/topic against an in-process Kafka and a real
// one. They are in a separate module, so that the library does not require the in-process Kafka.
package deadletters

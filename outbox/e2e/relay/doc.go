// Package relay has the tests of outbox/relay, and of the relay of a DynamoDB outbox with its producer, against an in-process
// Kafka. They are in a module of their own, so that the library does not require that Kafka.
package relay

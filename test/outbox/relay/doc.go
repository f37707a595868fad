// Package relay contains the tests of outbox/relay, and of the DynamoDB outbox's relay with a producer,
// against an in-process Kafka. They are in a separate module, so that the library does not require that
// Kafka.
package relay

// Package outbox contains the end-to-end tests of the outbox. An idemsk consumer books payments and publishes
// events, relays that are killed send them to Kafka, and a second idemsk consumer, a function without any
// settings, counts each event once.
package outbox

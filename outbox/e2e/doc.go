// Package e2e has the end-to-end tests of the outbox: payments go through an idemsk consumer, which books them and publishes what
// it has booked; relays that die send that to Kafka; and a second idemsk consumer, a function without any settings, counts each once.
package e2e

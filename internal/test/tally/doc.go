// Package tally helps end-to-end tests from a payment to the consumer that is notified of its booking. It
// simulates an event source that redelivers records ([Source]), a table's stream with relays that die
// ([Stream]), and the business of a second consumer, which counts every credit ([Books]). Their random
// choices come from a [Seed].
package tally

// Package tally is for tests of the whole way from a payment to whoever is told that it was booked. It plays what is not idemsk's:
// an event source that hands records over again ([Source]), a table's stream with relays that die ([Stream]), and the business
// of a second consumer, which counts whatever it is called with ([Books]). Their choices come from a [Seed].
package tally

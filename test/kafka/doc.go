// Package kafka has the tests of package kafka/consumer that need a Kafka in this process, and the test of
// its alert rules, which needs the parser of Prometheus. It is a module of its own, so that the library
// requires neither.
package kafka

// Package e2e has the tests of package kafka/consumer that need a Kafka in this process. It is a module of its own, so that the
// library does not require one.
package e2e

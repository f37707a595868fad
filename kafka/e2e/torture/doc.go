// Package torture holds the torture test of the consumer process: processes on a real Kafka that are killed, paused, ended and started
// at random, while the broker is restarted. It has no code of its own.
package torture

// Package local runs a function with a Kafka trigger on this machine: an event source mapping (package esm)
// on a topic or on recorded events, and the function as a process or at an Invoke endpoint. A broker, tables
// and queues can run in this process.
package local

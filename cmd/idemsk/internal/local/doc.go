// Package local runs an MSK-triggered function on this machine: an event source mapping (package esm) on a topic or on recorded
// events, the function behind the Lambda Runtime API or at an Invoke endpoint, and what is missing of broker, tables and queues,
// in this process.
package local

// Package consumer is a CDK construct that deploys an idemsk function for a Kafka topic: the table of keys,
// the function with a version and an alias, its event source mappings, dead letters, permissions, alarms and
// a dashboard.
//
// Props has a group of properties for each of them. A property that the function reads has the name of its
// variable: Idempotency.MaxAttempts is IDEMSK_MAX_ATTEMPTS. Check refuses invalid properties, and what
// contradicts itself, in one line each that names the property; New panics with its error. The function's own
// code (package app) checks the values of its variables.
//
// It is a separate Go module, so that programs that import the library do not download the CDK. It imports
// everything that the function defines: the table's attributes, the defaults and the metrics' names.
package consumer

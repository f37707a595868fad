// Package consumer is a CDK construct that deploys an idemsk function behind a Kafka topic: the table of keys, the function
// with a version and an alias, its event source mappings, dead letters, permissions, alarms and a dashboard.
//
// It lives in a Go module of its own, so that whoever imports the library neither downloads nor scans the CDK. Everything
// that depends on the function's contract is imported from there: the table's attributes, the defaults, the metrics' names.
package consumer

// Package consumer is a CDK construct that deploys an idemsk function for a Kafka topic: the table of keys,
// the function with a version and an alias, its event source mappings, dead letters, permissions, alarms and
// a dashboard.
//
// It is a separate Go module, so that programs that import the library do not download the CDK. It imports
// everything that the function defines: the table's attributes, the defaults and the metrics' names.
package consumer

// Package kafka takes Kafka records through package idem: every record's handler has its effect once per idempotency key, and records
// that can never succeed go to the dead letters. It is what the hosts of a handler share, so that a handler moves between them
// unchanged: package lambda/msk reads the records from the events of a Lambda function.
//
// A record becomes a task of the engine in these steps:
//
//   - Identify: [Config.Key] finds its idempotency key, which is stored within a namespace and a topic (see [StoredKey]), and
//     [Config.Fingerprint] what it asks for. A record that can't be decoded or identified is rejected: it gets a dead letter, which is
//     remembered under the record's place.
//   - Order: the records of a partition, or of one Kafka key, are handled one after another (see [Order]); package idem/batch
//     runs them, and lets duplicates of a batch share one outcome.
//   - Settle: completed, dead-lettered, or kept for another delivery. [Batch] has the outcome of each record.
package kafka

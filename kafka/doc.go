// Package kafka processes Kafka records with package idem: the handler of a record has its effect once per idempotency key, and
// records that can never succeed are sent to the dead letters. All hosts use this package, so a handler runs on each of them
// unchanged. Package lambda/msk, for example, reads the records from the events of a Lambda function.
//
// A record becomes a task of the engine in these steps:
//
//   - Identify: [Config.Key] returns its idempotency key, which is stored with the namespace and the topic (see [StoredKey]), and
//     [Config.Fingerprint] its fingerprint. A record that can't be decoded or identified is rejected: it is sent to the dead letters,
//     and its outcome is stored under the record's place.
//   - Order: the records of a partition, or of one Kafka key, are handled one after another (see [Order]). Package idem/batch
//     runs them, and lets duplicates in the batch share one outcome.
//   - Settle: the key is completed, or dead-lettered, or the record is kept for another delivery. [Batch] has the outcome of each record.
//
// [Processor.Run] processes a batch, such as an event of Lambda, before a deadline. [Processor.Stream] processes the records of a
// long-running consumer: it has no barrier between batches, and tries a record again until it is settled.
package kafka

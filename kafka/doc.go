// Package kafka processes Kafka records with package idem: each idempotency key is completed once, its
// duplicates get the stored result, and records that can never succeed are sent to the dead letters. All
// hosts use this package, so a handler runs on each of them unchanged: package lambda/msk reads the records
// from the events of a Lambda function, package kafka/consumer from the topic.
//
// An application needs [JSON] or a [Handler], and [Record]; most need nothing else, because app/lambda and
// app/process read the configuration from the environment.
//
// A record becomes a task of the engine in these steps:
//
//   - Identify: [Config.Key] returns its idempotency key, which is stored with the namespace and the topic
//     (see [StoredKey]), and [Config.Fingerprint] its fingerprint. A record that can't be decoded or
//     identified is rejected: it is sent to the dead letters, and its outcome is stored under the record's
//     place.
//   - Order: the records of a partition, or of one Kafka key, are handled one after another (see [Order]).
//     An idem.Scheduler runs them, and lets duplicates in the batch share one outcome.
//   - Settle: the key is completed, or dead-lettered, or the record is kept for another delivery. [Batch] has
//     the outcome of each record.
//
// [Processor.Run] processes a batch, such as an event of Lambda, before a deadline. [Processor.Stream]
// processes the records of a long-running consumer: it has no batches, so no record waits for the end of
// others, and a record that fails is tried again until it is settled.
package kafka

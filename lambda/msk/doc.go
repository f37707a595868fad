// Package msk takes the batches that Lambda's Kafka event source mapping (ESM) delivers, for Amazon MSK or a self-managed
// cluster, through package idem: every record's handler has its effect once per idempotency key, poison records go to the
// dead letters, and the answer tells the ESM what to deliver again.
//
//	engine, err := idem.New(store, idem.Config{})
//	consumer, err := msk.New(engine, msk.JSON(book), msk.Config{DeadLetters: queue})
//	lambda.Start(consumer)
//
// # The way of a record
//
// Decode ([Decode]; a record that can't be decoded fails alone). Key ([Config.Key], in a namespace). Coalesce: records of a
// batch with one key and one fingerprint cost one claim. Order: a unit of records (a partition, a Kafka key, or a single
// record) is processed one after another, units concurrently. Execute, through [idem.Session]. Settle. Answer.
//
// After the first record of a partition that is not settled, that record and every later one of the partition are
// reported. That is safe whether the ESM resumes at the lowest failure or retries just what is named; what had completed
// behind it is a cheap duplicate next time.
package msk

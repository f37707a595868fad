// Package msk takes the batches that Lambda's Kafka event source mapping (ESM) delivers, for Amazon MSK or a self-managed
// cluster, through packages kafka and idem, and tells the ESM what to deliver again.
//
//	engine, err := idem.New(store, idem.Config{})
//	consumer, err := msk.New(engine, msk.JSON(book), msk.Config{Records: kafka.Config{Namespace: "ledger", DeadLetters: queue}})
//	lambda.Start(consumer)
//
// It is the wire format: [Decode] reads an event, and [Response] is the answer. A record that can't be decoded fails alone.
//
// After the first record of a partition that is not settled, that record and every later one of the partition are
// reported. That is safe whether the ESM resumes at the lowest failure or retries just what is named; what had completed
// behind it is a cheap duplicate next time.
package msk

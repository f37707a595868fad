// Package msk processes the batches that Lambda's Kafka event source mapping (ESM) delivers, for Amazon MSK
// or a self-managed cluster, with packages kafka and idem, and reports to the ESM which records to deliver
// again.
//
//	engine, err := idem.New(store, idem.Config{})
//	consumer, err := msk.New(engine, msk.JSON(book), eventsource.Config{Records: kafka.Config{Namespace: "ledger", DeadLetters: queue}})
//	lambda.Start(consumer)
//
// The package defines the wire format: [Decode] reads an event, and [Response] is the answer. A record that
// can't be decoded does not affect other records.
//
// By default the invocation fails if a record is not settled, and the whole batch is delivered again. With
// eventsource.FailPartial the answer names the first unsettled record of each partition and every later record of the
// partition. This is safe whether the ESM resumes at the lowest failure or retries only the reported records.
// Later records that have completed are duplicates in the next delivery, and are not executed again.
package msk

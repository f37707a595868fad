// Package sqs processes the batches that Lambda's event source mapping (ESM) delivers from an SQS queue, with
// packages kafka and idem: the same handlers, keys, dead letters and metrics as for records of Kafka. Package
// app/lambda uses it for the events of queues, so a function needs no code of its own for them.
//
// A message is a [kafka.Record] whose fields have this meaning:
//
//   - Topic: the name of the queue. Stored keys have it in the place of the topic.
//   - Key: the message group, nil without one.
//   - Value: the body.
//   - Headers: the message attributes, sorted by name, then the types of those that are no String
//     ([DataTypePrefix]), and then the attributes that SQS sets. The names of all that are not the producer's
//     begin with [SystemPrefix], with which no attribute of a producer may begin.
//   - Timestamp: when the message was sent.
//   - Partition: 0.
//   - Offset: a number that is computed from the message ID, the same in each delivery. It has no order.
//
// The messages of a group of a FIFO queue are handled in order, and groups independently of each other. In a
// standard queue each message is independent of all others.
//
// The answer names the messages that are not settled. In a FIFO queue it also names all later ones of the
// same group, so that SQS delivers them in order again.
package sqs

// Package sqsfake is an in-process SQS for local runs and tests. A real SQS client talks to it over HTTP (AWS JSON 1.0)
// through its BaseEndpoint option.
//
// It has what this project sends, and no more: standard queues, FIFO queues with deduplication by ID and message groups,
// CreateQueue, DeleteQueue, GetQueueUrl, SendMessage, ReceiveMessage with long polling and visibility timeouts,
// ChangeMessageVisibility and DeleteMessage. Operations and parameters that it does not have it refuses by name; it never
// ignores one.
//
// Three things differ from SQS on purpose: messages of a standard queue come in the order in which they were sent too, none
// comes twice within its visibility timeout, and none is ever forgotten.
package sqsfake

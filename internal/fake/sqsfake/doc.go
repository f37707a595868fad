// Package sqsfake is an in-process SQS for local runs and tests. A real SQS client talks to it over HTTP (AWS
// JSON 1.0) through its BaseEndpoint option.
//
// It implements what this project needs: standard queues, FIFO queues with deduplication by ID and message
// groups, message attributes, CreateQueue, DeleteQueue, GetQueueUrl, ListQueues, SendMessage and
// SendMessageBatch with delays, ReceiveMessage with long polling and visibility timeouts,
// ChangeMessageVisibility and DeleteMessage. It rejects other operations and parameters with an error that
// names them.
//
// It differs from SQS in three ways: messages of a standard queue are received in the order in which they were
// sent, whatever their message groups are, no message is received twice within its visibility timeout, and no
// message expires.
package sqsfake

// Package order is what make aws-check asks its producer for.
package order

import "github.com/idemsk/idemsk/cmd/idemsk/internal/local/payments"

// Order is an event of the producer. Without Payments.Records it creates the topic.
type Order struct {
	Brokers    []string
	Topic      string
	Partitions int32
	Payments   payments.Config
}

// Sent is the producer's answer.
type Sent struct{ Records int }

package kafka

import (
	"net/url"
	"slices"
	"strings"
)

// Destination is where dead letters are sent, if they can be consumed from there. Who consumes his own dead
// letters makes a letter of each letter.
type Destination struct {
	Topic    string // the name of a Kafka topic
	QueueURL string // of an SQS queue
}

// DestinationOf returns where dead letters are sent, as their method Destination says, which those of
// packages kafka/deadletter/topic, sqs and s3 have. It is the zero value for others.
func DestinationOf(letters DeadLetters) Destination {
	if d, ok := letters.(interface{ Destination() Destination }); ok {
		return d.Destination()
	}
	return Destination{}
}

// IsQueue reports whether letters are sent to the queue with an ARN.
func (d Destination) IsQueue(arn string) bool {
	u, err := url.Parse(d.QueueURL)
	parts := strings.Split(arn, ":") // arn:aws:sqs:REGION:ACCOUNT:NAME
	const region, account, name, all = 3, 4, 5, 6
	if err != nil || d.QueueURL == "" || len(parts) != all {
		return false
	}
	// A queue of AWS has its region in the host, but for us-east-1 in URLs of older clients. Emulators have other
	// hosts.
	host := strings.ToLower(u.Hostname())
	foreign := strings.Contains("."+host, ".amazonaws.com") && !slices.Contains(strings.Split(host, "."), parts[region]) &&
		(host != "queue.amazonaws.com" || parts[region] != "us-east-1")
	return strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), "/"+parts[account]+"/"+parts[name]) && !foreign
}

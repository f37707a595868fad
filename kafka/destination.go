package kafka

import (
	"cmp"
	"net/url"
	"regexp"
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

// IsQueue reports whether letters are sent to the queue with an ARN: the account and the name are equal, and so
// is the region, if the URL has one.
func (d Destination) IsQueue(arn string) bool {
	u, err := url.Parse(d.QueueURL)
	parts := strings.Split(arn, ":") // arn:aws:sqs:REGION:ACCOUNT:NAME
	const region, account, name, all = 3, 4, 5, 6
	if err != nil || d.QueueURL == "" || len(parts) != all {
		return false
	}
	of := queueRegion(u)
	return strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/"+parts[account]+"/"+parts[name]) &&
		(of == "" || of == parts[region])
}

// The forms of a queue's URL that have a region. Emulators have the first two with hosts of their own.
var (
	regionalHost = regexp.MustCompile(`(?:^|\.)sqs(?:-fips)?\.([a-z]+(?:-[a-z]+)+-[0-9]+)\.`)                // also VPC endpoints
	legacyHost   = regexp.MustCompile(`^(?:([a-z]+(?:-[a-z]+)+-[0-9]+)\.)?queue\.(?:amazonaws|localhost)\.`) // none: us-east-1
	regionalPath = regexp.MustCompile(`^/queue/([a-z]+(?:-[a-z]+)+-[0-9]+)/`)                                // LocalStack alone
)

// queueRegion returns the region in a queue's URL, or "" if it has none.
func queueRegion(u *url.URL) string {
	host := strings.ToLower(u.Hostname())
	if m := regionalHost.FindStringSubmatch(host); m != nil {
		return m[1]
	}
	if m := legacyHost.FindStringSubmatch(host); m != nil {
		return cmp.Or(m[1], "us-east-1")
	}
	if m := regionalPath.FindStringSubmatch(u.Path); m != nil {
		return m[1]
	}
	return ""
}

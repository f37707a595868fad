package kafka_test

import (
	"testing"

	"github.com/idemsk/idemsk/kafka"
)

func TestDestinationIsAQueue(t *testing.T) {
	const arn = "arn:aws:sqs:eu-central-1:123456789012:letters"
	for url, want := range map[string]bool{
		"https://sqs.eu-central-1.amazonaws.com/123456789012/letters":                 true,
		"https://sqs.eu-central-1.amazonaws.com/123456789012/letters/":                true,
		"https://eu-central-1.queue.amazonaws.com/123456789012/letters":               true,
		"https://vpce-0a-1b.sqs.eu-central-1.vpce.amazonaws.com/123456789012/letters": true,
		"http://sqs.us-east-1.localhost.localstack.cloud:4566/123456789012/letters":   true,
		"http://127.0.0.1:4566/queue/eu-central-1/123456789012/letters":               true,
		"https://sqs.eu-west-1.amazonaws.com/123456789012/letters":                    false,
		"https://sqs.eu-central-1.amazonaws.com/210987654321/letters":                 false,
		"https://sqs.eu-central-1.amazonaws.com/123456789012/letters-2":               false,
		"https://sqs.eu-central-1.amazonaws.com/123456789012/my-letters":              false,
		"https://SQS.EU-CENTRAL-1.amazonaws.com/123456789012/letters":                 true,
		"https://queue.amazonaws.com/123456789012/letters":                            false, // us-east-1
		"": false,
	} {
		if got := (kafka.Destination{QueueURL: url}).IsQueue(arn); got != want {
			t.Errorf("%s: %t; want %t", url, got, want)
		}
	}
	if !(kafka.Destination{QueueURL: "https://queue.amazonaws.com/1/letters"}).IsQueue("arn:aws:sqs:us-east-1:1:letters") {
		t.Error("a URL of us-east-1 as older clients have it is another queue")
	}
	for _, other := range []string{"", "letters", "arn:aws:kafka:eu-central-1:123456789012:cluster/letters/1"} {
		if (kafka.Destination{QueueURL: "https://sqs.eu-central-1.amazonaws.com/123456789012/letters"}).IsQueue(other) {
			t.Errorf("it is taken for %q", other)
		}
	}
}

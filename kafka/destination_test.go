package kafka_test

import (
	"cmp"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/kafka"
)

func TestDestinationIsAQueue(t *testing.T) {
	t.Parallel()
	const path = "/123456789012/letters"
	for url, region := range map[string]string{ // "*": the URL has no region, so each is taken for that of the queue
		"https://sqs.REGION.amazonaws.com" + path:                            "",
		"https://sqs.REGION.amazonaws.com" + path + "/":                      "",
		"https://sqs.REGION.amazonaws.com/" + path:                           "",
		"https://sqs.REGION.amazonaws.com." + path:                           "",
		"https://SQS.REGION.AmazonAWS.com" + path:                            "",
		"https://sqs-fips.REGION.amazonaws.com" + path:                       "",
		"https://sqs.REGION.amazonaws.com.cn" + path:                         "",
		"https://sqs.REGION.api.aws" + path:                                  "",
		"https://sqs.REGION.amazonaws.eu" + path:                             "",
		"https://vpce-0a-1b.sqs.REGION.vpce.amazonaws.com" + path:            "",
		"https://vpce-0a-1b-eu-west-1a.sqs.REGION.vpce.amazonaws.com" + path: "",
		"https://REGION.queue.amazonaws.com" + path:                          "",
		"https://REGION.Queue.amazonaws.com.cn" + path:                       "",
		"https://queue.amazonaws.com" + path:                                 "us-east-1",
		"https://QUEUE.amazonaws.com" + path + "/":                           "us-east-1",
		"http://sqs.REGION.localhost.localstack.cloud:4566" + path:           "",
		"http://REGION.queue.localhost.localstack.cloud:4566" + path:         "",
		"http://queue.localhost.localstack.cloud:4566" + path:                "us-east-1",
		"http://127.0.0.1:4566/queue/REGION" + path:                          "",
		"http://localhost:4566" + path:                                       "*",
		"http://queue.example.com" + path:                                    "*",
		"https://sqs.example-internal.com" + path:                            "*",
	} {
		for _, own := range []string{"eu-central-1", "us-east-1", "us-gov-west-1", "cn-north-1"} {
			d := kafka.Destination{QueueURL: strings.ReplaceAll(url, "REGION", strings.ToUpper(own))}
			if strings.Contains(url, "/REGION/") { // a path has the case of its region
				d.QueueURL = strings.ReplaceAll(url, "REGION", own)
			}
			for _, of := range []string{"eu-central-1", "us-east-1", "us-gov-west-1", "cn-north-1"} {
				want := cmp.Or(region, own) == of || region == "*"
				if got := d.IsQueue("arn:aws:sqs:" + of + ":123456789012:letters"); got != want {
					t.Errorf("%s in %s: %t; want %t", d.QueueURL, of, got, want)
				}
			}
			for _, other := range []string{"", "letters", "arn:aws:kafka:" + own + ":123456789012:cluster/letters/1",
				"arn:aws:sqs:" + own + ":210987654321:letters", "arn:aws:sqs:" + own + ":123456789012:letters-2",
				"arn:aws:sqs:" + own + ":123456789012:my-letters", "arn:aws:sqs:" + own + ":123456789012:Letters"} {
				if d.IsQueue(other) {
					t.Errorf("%s is taken for %q", d.QueueURL, other)
				}
			}
		}
	}
	if (kafka.Destination{}).IsQueue("arn:aws:sqs:eu-central-1:123456789012:letters") {
		t.Error("no destination is taken for a queue")
	}
}

package sqsdlq

import (
	"errors"
	"net"
)

// hint is what to do about an error of SQS: until it is done, the records whose letters can't be sent hold up their partitions.
func hint(err error) string {
	var api interface { // as every refusal of the service's
		error
		ErrorCode() string
	}
	if errors.As(err, &api) {
		switch api.ErrorCode() {
		case "AccessDenied", "AccessDeniedException":
			return " (the role needs sqs:SendMessage on the queue, and kms:GenerateDataKey and kms:Decrypt on its key, if it has one)"
		case "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue":
			return " (there is no such queue in this account and region: see IDEMSK_DEAD_LETTER_QUEUE_URL)"
		}
		return ""
	}
	var network net.Error
	if errors.As(err, &network) {
		return " (nothing answers there: in a VPC the function needs an endpoint for SQS, or a way to the Internet)"
	}
	return ""
}

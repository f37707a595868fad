package sqs

import (
	"errors"
	"net"
	"strings"
)

// apiError is implemented by every error response of the service.
type apiError interface {
	error
	ErrorCode() string
}

// mayBeTooLarge reports whether SQS may have refused a message because of its size. It has no code of its own
// for that.
func mayBeTooLarge(err error) bool {
	var api apiError
	return errors.As(err, &api) && strings.HasPrefix(api.ErrorCode(), "InvalidParameterValue")
}

// hint returns the remedy for an error of SQS. Until the error is fixed, records whose letters can't be sent
// block their partitions.
func hint(err error) string {
	var api apiError
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
		return " (no answer: in a VPC the function needs an endpoint for SQS, or a route to the Internet)"
	}
	return ""
}

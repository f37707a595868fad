package sqsfake

import "fmt"

// apiError is an error answer of SQS.
type apiError struct {
	code string // the shape's name, as in __type
	// the code of the older query protocol, by which the SDK's errors are known; "" if it is the same
	query   string
	message string
}

func (e *apiError) Error() string { return e.code + ": " + e.message }

// legacyCode returns the value of the header x-amzn-query-error.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-json-faqs.html
func (e *apiError) legacyCode() string {
	if e.query != "" {
		return e.query
	}
	return e.code
}

func noQueue(name string) error {
	return &apiError{
		code: "QueueDoesNotExist", query: "AWS.SimpleQueueService.NonExistentQueue",
		message: fmt.Sprintf("The specified queue does not exist: %q.", name),
	}
}

func invalidValue(parameter string, value any, want string) error {
	return &apiError{
		code: "InvalidParameterValue",
		message: fmt.Sprintf("Value %v for parameter %s is invalid. Reason: Must be %s.", value, parameter,
			want),
	}
}

func unsupported(format string, args ...any) error {
	return &apiError{
		code: "UnsupportedOperation", query: "AWS.SimpleQueueService.UnsupportedOperation",
		message: "sqsfake does not have " + fmt.Sprintf(format, args...),
	}
}

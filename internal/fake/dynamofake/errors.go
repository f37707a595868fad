package dynamofake

import (
	"fmt"
	"net/http"
)

// Error is an error of the DynamoDB API. [Throttled] and [Internal] return one for a [Fault].
type Error struct {
	// HTTP status: 400 (also if it is 0) for the caller's errors, 500 and above for the service's
	Status  int
	Code    string // short name, for example ConditionalCheckFailedException
	Message string

	item    item                 // the stored item, where ReturnValuesOnConditionCheckFailure asks for it
	reasons []cancellationReason // of a TransactionCanceledException, one per action
}

// cancellationReason is the reason why an action cancelled its transaction. The zero value means that it did
// not.
type cancellationReason struct {
	code, message string
	item          item
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Throttled returns the error of an on-demand table under too much load. The SDK retries it.
func Throttled() *Error {
	return clientError("ThrottlingException",
		"Throughput exceeds the current capacity of your table or index. Please try again shortly.")
}

// Internal returns an internal error of DynamoDB (HTTP 500). The SDK retries it.
func Internal() *Error {
	return &Error{Status: http.StatusInternalServerError, Code: "InternalServerError",
		Message: "Internal server error"}
}

func clientError(code, format string, args ...any) *Error {
	message := format
	if len(args) > 0 {
		message = fmt.Sprintf(format, args...)
	}
	return &Error{Status: http.StatusBadRequest, Code: code, Message: message}
}

func invalid(format string, args ...any) *Error {
	return clientError("ValidationException", format, args...)
}

// unsupported returns the error for a feature of DynamoDB that this package does not implement.
func unsupported(format string, args ...any) *Error {
	return invalid("dynamofake does not support "+format, args...)
}

// malformed returns the error for a body that is not JSON of the expected structure.
func malformed(format string, args ...any) *Error {
	return clientError("SerializationException", format, args...)
}

func conditionFailed(old item) *Error {
	e := clientError("ConditionalCheckFailedException", "The conditional request failed")
	e.item = old
	return e
}

// append writes the error's JSON.
func (e *Error) append(out []byte) []byte {
	out = appendString(append(out, `{"__type":`...), "com.amazonaws.dynamodb.v20120810#"+e.Code)
	out = appendString(append(out, `,"message":`...), e.Message)
	if e.item != nil {
		out = appendItem(append(out, `,"Item":`...), e.item)
	}
	if e.reasons != nil {
		out = append(out, `,"CancellationReasons":[`...)
		out = append(appendEach(out, e.reasons, appendReason), ']')
	}
	return append(out, '}')
}

func appendReason(out []byte, c *cancellationReason) []byte {
	if c.code == "" {
		return append(out, `{"Code":"None"}`...)
	}
	out = appendString(append(out, `{"Code":`...), c.code)
	out = appendString(append(out, `,"Message":`...), c.message)
	if c.item != nil {
		out = appendItem(append(out, `,"Item":`...), c.item)
	}
	return append(out, '}')
}

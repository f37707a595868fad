package layercall

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/mskevent"
)

// MaxRetryAfter bounds a delay. A delay that is negative is none. Both keep the conversion from overflowing.
const MaxRetryAfter = 24 * time.Hour

// failureOf returns the error of an item of batchItemFailures. A field that can't be read is ignored, and the
// error names it.
func failureOf(item map[string]json.RawMessage) error {
	text := "the function named the record in " + listFailures
	var permanent, unavailable, unknown bool
	var afterMs int64
	var ignored []string
	for _, field := range []struct {
		name string
		into any
	}{
		{"permanent", &permanent},     // no further attempt: a dead letter
		{"unavailable", &unavailable}, // another attempt, and this one is not counted
		{"outcomeUnknown", &unknown},  // the effect may have taken place
		{"error", &text},              // for the log and the dead letter
		{"retryAfterMs", &afterMs},    // the delay before the next attempt
	} {
		if value, ok := item[field.name]; ok && json.Unmarshal(value, field.into) != nil {
			ignored = append(ignored, field.name)
		}
	}
	err := errors.New(cmp.Or(text, "the function gave no text"))
	if len(ignored) > 0 {
		err = fmt.Errorf("%w (ignored, because of another type: %s)", err, strings.Join(ignored, ", "))
	}
	if permanent && unavailable {
		permanent, unavailable = false, false
		err = fmt.Errorf("%w (ignored, because a failure can't be both: permanent, unavailable)", err)
	}
	after := time.Duration(max(0, min(afterMs, MaxRetryAfter.Milliseconds()))) * time.Millisecond
	switch err = idem.RetryAfter(err, after); {
	case permanent:
		err = idem.Permanent(err)
	case unavailable:
		err = idem.Unavailable(err)
	}
	if unknown {
		err = idem.OutcomeUnknown(err)
	}
	return err
}

// IsError reports whether an answer is an error document of Lambda, with a type and a message.
func IsError(answer []byte) bool {
	var e struct{ ErrorType, ErrorMessage *string }
	return json.Unmarshal(answer, &e) == nil && e.ErrorType != nil && e.ErrorMessage != nil
}

// FunctionError returns the error of a call by the payload with which the function's runtime reports it, and by
// the type in the header, which is kind. The name of the error's class may mark it as permanent, unavailable,
// or of unknown outcome, so that a function needs no library. Runtimes report the name with its package
// or namespace (Java, PHP), as Function<NAME> (Ruby), or alone (Python, .NET); Node.js reports the property name.
func FunctionError(kind string, payload []byte) error {
	kind, message := mskevent.ErrorDocument(kind, payload)
	err := fmt.Errorf("the function failed: %s: %s", cmp.Or(kind, "Error"), message)
	class := strings.TrimSuffix(strings.TrimPrefix(kind, "Function<"), ">")
	switch class[strings.LastIndexAny(class, `.$:+\`)+1:] {
	case "PermanentError", "PermanentException":
		return idem.Permanent(err)
	case "UnavailableError", "UnavailableException":
		return idem.Unavailable(idem.RetryAfter(err, delayIn(message)))
	case "OutcomeUnknownError", "OutcomeUnknownException":
		return idem.OutcomeUnknown(err)
	}
	if strings.Contains(class, "Timeout") || hasReturned(class, message) { // SocketTimeoutException
		return idem.OutcomeUnknown(err)
	}
	return err
}

// hasReturned reports whether an error is not the function's: it has returned, and its runtime could not encode
// its answer, or the Runtime API did not take it.
func hasReturned(errorType, message string) bool {
	switch errorType {
	case "Function.ResponseSizeTooLarge", "Runtime.InvalidResponseModeHeader": // the Runtime API
		return true
	case "Runtime.MarshalError", // Python
		"Runtime.JSONStringifyError",                                                       // Node.js from 24
		"JSON::GeneratorError", "JSON::NestingError", "Encoding::UndefinedConversionError", // Ruby
		"UnsupportedTypeError", "UnsupportedValueError", "MarshalerError": // Go
		return true
	}
	for _, start := range []string{ // of runtimes whose type is also that of other errors
		"Unable to stringify response body", "Wrong arguments", // Node.js: the second of an answer without a text
		"An error occurred during JSON serialization of response", // Java
		"Error converting the response object ",                   // .NET
		"The Lambda response cannot be encoded to JSON",           // PHP (Bref)
		"The Lambda response is too big",                          // PHP
	} {
		if strings.HasPrefix(message, start) {
			return true
		}
	}
	return strings.Contains(message, " while calling the Lambda runtime API: ") // PHP, with the status before
}

// delayIn returns the delay at the end of a message: "retry after" with a Go duration or whole seconds. It is
// 0 if the end is anything else.
func delayIn(message string) time.Duration {
	const before = "retry after "
	at := strings.LastIndex(message, before)
	if at < 0 {
		return 0
	}
	text := strings.TrimSpace(message[at+len(before):])
	if _, err := strconv.ParseUint(text, 10, 64); err == nil {
		text += "s"
	}
	after, _ := time.ParseDuration(text) // 0 if it is none
	return max(0, min(after, MaxRetryAfter))
}

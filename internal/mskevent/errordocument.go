package mskevent

import (
	"cmp"
	"encoding/json"
	"fmt"
)

// ErrorDocument returns the type and the message of an error that a runtime reports. Runtimes name the type in
// the document, in the header Lambda-Runtime-Function-Error-Type, whose value is kind, or in both; the
// document counts. A body of another form is not quoted: it may have values of the records.
func ErrorDocument(kind string, body []byte) (errorType, message string) {
	var document struct{ ErrorType, ErrorMessage string }
	if err := json.Unmarshal(body, &document); err != nil || document.ErrorType == "" && document.ErrorMessage == "" {
		return kind, fmt.Sprintf("its error is no document with errorType or errorMessage (%d bytes, not shown)", len(body))
	}
	return cmp.Or(document.ErrorType, kind), document.ErrorMessage
}
